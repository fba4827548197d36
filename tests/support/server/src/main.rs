//! The test server as a process of its own.

fn main() -> std::process::ExitCode {
    mcp_test_server::main(std::env::args().skip(1))
}
