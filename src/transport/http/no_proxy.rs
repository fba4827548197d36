//! Which hosts are reached without the proxy: the convention of `NO_PROXY` as curl documents it. Pure.
//!
//! ```text
//! *                    everything
//! example.com          the host and all below it; so do .example.com and *.example.com
//! 10.1.2.3, [::1]      that address; ::1 too
//! 10.0.0.0/8           a network; fd00::/8 too
//! ...:8080             any of the names and addresses with a port: that port alone
//! ```
//!
//! Names are compared as they are written: nothing is looked up, and `localhost` is a name like any other.

use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    All,
    /// Lower case, no dot at either end.
    Name(String),
    Address(IpAddr),
    /// An address and the length of its prefix.
    Network(IpAddr, u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    which: Which,
    port: Option<u16>,
}

/// A list of exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NoProxy(Vec<Entry>);

impl NoProxy {
    /// Reads a list whose entries are parted by commas or white space. What is no entry is passed over, as curl does.
    pub(super) fn read(list: &str) -> Self {
        let parts = list.split(|c: char| c == ',' || c.is_whitespace());
        Self(parts.filter_map(entry).collect())
    }

    /// Whether this host, as it stands in a URL, is reached without the proxy.
    pub(super) fn names(&self, host: &str, port: u16) -> bool {
        let host = host.to_ascii_lowercase();
        let host = host.trim_end_matches('.');
        let address = literal(host);
        self.0.iter().any(|entry| entry.port.is_none_or(|only| only == port) && entry.which.is(host, address))
    }
}

impl Which {
    fn is(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, _) => true,
            (Self::Name(name), None) => {
                let before = host.strip_suffix(name.as_str());
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            (Self::Address(one), Some(address)) => *one == address,
            (Self::Network(network, bits), Some(address)) => within(*network, *bits, address),
            (Self::Name(_), Some(_)) | (Self::Address(_) | Self::Network(..), None) => false,
        }
    }
}

fn entry(text: &str) -> Option<Entry> {
    if text == "*" {
        return Some(Entry { which: Which::All, port: None });
    }
    if let Some((network, bits)) = text.split_once('/') {
        let (network, bits) = (literal(network)?, bits.parse::<u8>().ok()?);
        let most = if network.is_ipv4() { 32 } else { 128 };
        return (bits <= most).then_some(Entry { which: Which::Network(network, bits), port: None });
    }
    if let Some(address) = literal(text) {
        return Some(Entry { which: Which::Address(address), port: None });
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    if let Some(address) = literal(host) {
        return Some(Entry { which: Which::Address(address), port });
    }
    let name = host.strip_prefix('*').unwrap_or(host).trim_matches('.').to_ascii_lowercase();
    (!name.is_empty()).then_some(Entry { which: Which::Name(name), port })
}

/// An address as it is written, with or without brackets.
fn literal(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(v6) => v6.parse().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

fn within(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let apart = u32::from(network) ^ u32::from(address);
            apart.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let apart = u128::from(network) ^ u128::from(address);
            apart.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_19_the_list_names_hosts_as_curl_reads_it() {
        let rows = [
            // (list, host, port, without the proxy)
            ("", "a.test", 80, false),
            ("*", "a.test", 80, true),
            ("*", "[::1]", 80, true),
            ("b.test, *", "a.test", 80, true),
            ("a.test", "a.test", 80, true),
            ("a.test", "A.Test", 80, true),
            ("A.TEST", "a.test", 80, true),
            ("a.test", "a.test.", 80, true),
            ("a.test.", "a.test", 80, true),
            ("a.test", "x.a.test", 80, true),
            ("a.test", "xa.test", 80, false),
            ("a.test", "a.test.evil", 80, false),
            (".a.test", "a.test", 80, true),
            (".a.test", "x.y.a.test", 80, true),
            (".a.test", "xa.test", 80, false),
            ("*.a.test", "x.a.test", 80, true),
            ("b.test,a.test", "a.test", 80, true),
            ("b.test a.test", "a.test", 80, true),
            ("b.test ,\t a.test ,,", "a.test", 80, true),
            ("a.test:8080", "a.test", 8080, true),
            ("a.test:8080", "a.test", 80, false),
            ("a.test:x", "a.test", 80, false),
            ("localhost,127.0.0.1,.internal.test", "localhost", 80, true),
            ("localhost,127.0.0.1,.internal.test", "127.0.0.1", 80, true),
            ("localhost,127.0.0.1,.internal.test", "a.internal.test", 80, true),
            ("localhost,127.0.0.1,.internal.test", "other.test", 80, false),
            // Nothing is looked up: the name and the address are two things.
            ("localhost", "127.0.0.1", 80, false),
            ("127.0.0.1", "localhost", 80, false),
            ("0.0.1", "127.0.0.1", 80, false),
            ("127.0.0.1:81", "127.0.0.1", 81, true),
            ("127.0.0.1:81", "127.0.0.1", 80, false),
            ("::1", "[::1]", 80, true),
            ("[::1]", "[::1]", 80, true),
            ("0:0:0:0:0:0:0:1", "[::1]", 80, true),
            ("[::1]:443", "[::1]", 443, true),
            ("[::1]:443", "[::1]", 80, false),
            ("10.0.0.0/8", "10.255.0.1", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("192.168.1.128/25", "192.168.1.127", 80, false),
            ("192.168.1.128/25", "192.168.1.255", 80, true),
            ("10.1.2.3/32", "10.1.2.3", 80, true),
            ("10.1.2.3/32", "10.1.2.4", 80, false),
            ("0.0.0.0/0", "10.1.2.4", 80, true),
            ("0.0.0.0/0", "[::1]", 80, false),
            ("0.0.0.0/0", "a.test", 80, false),
            ("fd00::/8", "[fd12::1]", 80, true),
            ("fd00::/8", "[fe80::1]", 80, false),
            ("::/0", "[fe80::1]", 80, true),
            ("10.0.0.0/33", "10.0.0.1", 80, false),
            ("10.0.0.0/x", "10.0.0.1", 80, false),
            (".", "a.test", 80, false),
            ("/8", "10.0.0.1", 80, false),
        ];
        for (list, host, port, want) in rows {
            assert_eq!(NoProxy::read(list).names(host, port), want, "{list:?} and {host}:{port}");
        }
    }
}
