//! A peer without a socket: it says what it was told to, and reads whatever comes.

use std::io;

use crate::transport::http::socket::Line;

/// Says something, and then perhaps something else again and again, until that is enough.
pub(in crate::transport::http) struct Says {
    first: io::Cursor<Vec<u8>>,
    again: &'static [u8],
    left: usize,
}

impl Says {
    pub(in crate::transport::http) fn once(first: impl Into<Vec<u8>>) -> Self {
        Self { first: io::Cursor::new(first.into()), again: b"", left: 0 }
    }

    pub(in crate::transport::http) fn again(first: impl Into<Vec<u8>>, again: &'static [u8]) -> Self {
        Self { again, left: 100_000, ..Self::once(first) }
    }
}

impl io::Read for Says {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let amount = self.first.read(buf)?;
        if amount > 0 || self.left == 0 {
            return Ok(amount);
        }
        self.left -= 1;
        let mut again = self.again;
        again.read(buf)
    }
}

impl io::Write for Says {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Line for Says {
    fn is_open(&mut self) -> bool {
        true
    }
}
