// For a server that listens on every interface and prints a port that it was told: the loopback interface alone, and
// `listening URL` with the port that it got. It ends after MAX_SECONDS.
const net = require('node:net');
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, done) {
  this.once('listening', () => console.log(`listening http://127.0.0.1:${this.address().port}${process.env.ENDPOINT}`));
  return listen.call(this, { port: Number(port), host: '127.0.0.1' }, done);
};
setTimeout(() => process.exit(0), 1000 * Number(process.env.MAX_SECONDS)).unref();
