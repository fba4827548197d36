//! One connection as a place to write.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::peer::Peer;
use crate::shared::Shared;

/// A connection with its server.
pub(crate) struct Line {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) number: u64,
}

impl Line {
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.stream).write_all(bytes)
    }

    /// Closes in order, after what was written.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Makes the close that follows a reset.
    pub(crate) fn arm_reset(&self) {
        let _ = socket2::SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO));
    }
}

impl Peer for Line {
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn gone(&self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let seen = self.stream.peek(&mut [0]);
        let _ = self.stream.set_nonblocking(false);
        match seen {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}
