//! Metrics over HTTP, for a local collector: one GET for each connection.
use super::clients::{Client, Clients, Timed};
use anyhow::{Context, Result};
use segno_device::listen_locally;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;

/// Connections that wait to be accepted.
const WAITING: i32 = 128;
const LONGEST_REQUEST: u64 = 8192;
const HEADERS_MAX: usize = 100;

/// Where metrics are served: on this machine only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let address: SocketAddr =
            text.parse().map_err(|_| "an address with a port is needed, as 127.0.0.1:9750, or unix:PATH")?;
        if !address.ip().is_loopback() {
            return Err(
                "only loopback addresses (127.0.0.1, [::1]) and unix:PATH are served; other machines need a \
                        proxy that checks who asks"
                    .into(),
            );
        }
        Ok(Self::Tcp(address))
    }
}

/// Values of `Host` that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hosts {
    /// A name of this machine. Another one is that of a page in a browser here whose name was made to lead to this server.
    Local,
    Any,
}

impl Hosts {
    fn allow(self, host: &[u8]) -> bool {
        let host = std::str::from_utf8(host).unwrap_or_default().trim();
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.split(':').next().unwrap_or_default(),
        };
        self == Self::Any
            || name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// Serves until the process ends.
pub fn run(address: &Address, content_type: &str, collect: impl Fn() -> Result<String> + Sync) -> Result<()> {
    let in_use = |e: io::Error, what: String| match e.kind() {
        io::ErrorKind::AddrInUse => anyhow::anyhow!("{what} is in use by another process: choose another"),
        _ => anyhow::Error::new(e).context(format!("cannot listen at {what}")),
    };
    match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(address).map_err(|e| in_use(e, address.to_string()))?;
            println!("http://{}/metrics", listener.local_addr()?);
            serve(|| Ok(listener.accept()?.0), Hosts::Local, content_type, &collect)
        }
        Address::Unix(path) => {
            let listener = listen_locally(path, WAITING);
            let listener = listener.with_context(|| format!("cannot listen at {}", path.display()))?;
            println!("unix:{}", path.display());
            serve(|| Ok(listener.accept()?.0), Hosts::Any, content_type, &collect)
        }
    }
}

fn serve<C: Client>(
    accept: impl Fn() -> io::Result<C>,
    hosts: Hosts,
    content_type: &str,
    collect: &(impl Fn() -> Result<String> + Sync),
) -> Result<()> {
    let clients = Clients::new();
    thread::scope(|scope| {
        loop {
            let mut client = accept().context("cannot accept a connection")?;
            let Some(place) = clients.enter(&client) else { continue };
            scope.spawn(move || {
                // A client that fails harms only itself.
                let _failed = request(&mut client).and_then(|request| {
                    place.has_sent();
                    answer(&mut client, request.as_ref(), hosts, content_type, collect)
                });
            });
        }
    })
}

/// The parts of a request on which the answer depends.
pub(super) struct Request {
    method: String,
    path: String,
    hosts: Vec<Vec<u8>>,
}

/// Reads a request; `None` if it is no HTTP. Its other headers are not used.
pub(super) fn request(client: &mut impl Client) -> io::Result<Option<Request>> {
    let mut from = BufReader::new(Timed::new(client).take(LONGEST_REQUEST));
    let mut head = Vec::new();
    loop {
        let line = head.len();
        from.read_until(b'\n', &mut head)?;
        if matches!(head.get(line..), Some(b"" | b"\n" | b"\r\n")) {
            return Ok(parse(&head));
        }
    }
}

fn parse(head: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    if !parsed.parse(head).ok()?.is_complete() {
        return None;
    }
    let hosts = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let hosts = hosts.map(|header| header.value.to_vec()).collect();
    Some(Request { method: parsed.method?.to_owned(), path: parsed.path?.to_owned(), hosts })
}

pub(super) fn answer(
    client: &mut impl Client,
    request: Option<&Request>,
    hosts: Hosts,
    content_type: &str,
    collect: &impl Fn() -> Result<String>,
) -> io::Result<()> {
    let is_foreign = request.is_some_and(|r| r.hosts.iter().any(|host| !hosts.allow(host)));
    let (status, kind, body) = match request.map(|r| (r.method.as_str(), r.path.as_str())) {
        _ if is_foreign => {
            ("421 Misdirected Request", "text/plain", "the host is no name of this machine\n".to_owned())
        }
        Some(("GET", "/metrics")) => match collect() {
            Ok(body) => ("200 OK", content_type, body),
            Err(e) => ("503 Service Unavailable", "text/plain", format!("{e:#}\n")),
        },
        Some(("GET", _)) => ("404 Not Found", "text/plain", "the metrics are at /metrics\n".to_owned()),
        _ => ("400 Bad Request", "text/plain", "only GET is served\n".to_owned()),
    };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    Timed::new(client).write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    fn ask(text: &str, collect: &(impl Fn() -> Result<String> + Sync)) -> String {
        ask_for(text, Hosts::Any, collect)
    }

    fn ask_for(text: &str, hosts: Hosts, collect: &(impl Fn() -> Result<String> + Sync)) -> String {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        here.write_all(text.as_bytes()).unwrap();
        here.shutdown(std::net::Shutdown::Write).unwrap();
        let request = request(&mut there).unwrap();
        let _closed_early = answer(&mut there, request.as_ref(), hosts, "text/x", collect);
        drop(there);
        let mut text = String::new();
        here.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn requests_are_answered() {
        let works = || Ok("a 1\n".to_owned());
        let said = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", &works);
        assert_eq!(
            said,
            "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 4\r\nConnection: close\r\n\r\na 1\n"
        );
        assert!(ask("GET / HTTP/1.1\r\n\r\n", &works).starts_with("HTTP/1.1 404 "));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n", &works).starts_with("HTTP/1.1 400 "));
        for none in ["\r\n", "GET /metrics\r\n\r\n", "GET /metrics HTTP/1.1\r\nAccept: x\r\n"] {
            assert!(ask(none, &works).starts_with("HTTP/1.1 400 "), "{none:?}");
        }
        let gone = ask("GET /metrics HTTP/1.1\r\n\r\n", &|| bail!("the server of /mnt has died"));
        assert!(gone.starts_with("HTTP/1.1 503 ") && gone.ends_with("has died\n"), "{gone}");
    }

    /// A page that a browser of this machine shows must not read them.
    #[test]
    fn a_request_for_another_host_is_refused_on_the_network() {
        let works = || Ok("a 1\n".to_owned());
        let ask = |host: &str, hosts| {
            ask_for(&format!("GET /metrics HTTP/1.1\r\nhost:{host}\r\n\r\n"), hosts, &works)
        };
        for local in [" 127.0.0.1:9750", "127.8.8.8", " localhost", "LocalHost:1", "[::1]:9750"] {
            assert!(ask(local, Hosts::Local).starts_with("HTTP/1.1 200 "), "{local}");
        }
        for foreign in [
            " evil.example:9750",
            "localhost.evil",
            "10.0.0.1",
            "[fe80::1]",
            "",
            " 127.0.0.1.evil",
            "0.0.0.0",
        ] {
            let said = ask(foreign, Hosts::Local);
            assert!(said.starts_with("HTTP/1.1 421 ") && !said.contains("a 1"), "{foreign}: {said}");
            assert!(ask(foreign, Hosts::Any).starts_with("HTTP/1.1 200 "), "{foreign}");
        }
        let two = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n";
        assert!(ask_for(two, Hosts::Local, &works).starts_with("HTTP/1.1 421 "));
        for header in ["\rHost: evil", " Host: evil", "Host : evil", "Host: localhost\rHost: evil", "Host"] {
            let said = ask_for(&format!("GET /metrics HTTP/1.1\r\n{header}\r\n\r\n"), Hosts::Local, &works);
            assert!(said.starts_with("HTTP/1.1 4") && !said.contains("a 1"), "{header:?}: {said}");
        }
        assert!(ask_for("GET /metrics HTTP/1.0\r\n\r\n", Hosts::Local, &works).starts_with("HTTP/1.1 200 "));
    }

    /// Each client is in the middle of its request. Neither their number nor their duration may matter.
    #[test]
    fn a_client_is_served_whatever_others_keep_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            serve(|| Ok(listener.accept()?.0), Hosts::Local, "text/x", &|| Ok("a 1\n".to_owned()))
        });
        let mut open = Vec::new();
        for round in 0..3 {
            for _ in 0..20 {
                let mut client = TcpStream::connect(address).unwrap();
                client.write_all(b"G").unwrap();
                open.push(client);
            }
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            assert!(said.ends_with("a 1\n"), "round {round}: {said}");
        }
        // The oldest were ended for the others.
        let mut byte = [0];
        assert!(!matches!(open[0].read(&mut byte), Ok(1)));
    }

    #[test]
    fn only_this_machine_is_served() {
        assert_eq!("127.0.0.1:9".parse(), Ok(Address::Tcp(([127, 0, 0, 1], 9).into())));
        assert!("[::1]:9".parse::<Address>().is_ok());
        assert_eq!("unix:/a".parse(), Ok(Address::Unix("/a".into())));
        for refused in ["0.0.0.0:9", "192.168.0.1:9", "[::]:9", "localhost", "9750", ""] {
            assert!(refused.parse::<Address>().is_err(), "{refused}");
        }
    }

    #[test]
    fn a_file_in_place_of_the_socket_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(run(&Address::Unix(file.clone()), "", || Ok(String::new())).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"x");
        let socket = dir.path().join("socket");
        let listener = listen_locally(&socket, 1).unwrap();
        let why = run(&Address::Unix(socket.clone()), "", || Ok(String::new())).unwrap_err();
        assert!(format!("{why:#}").contains("another program listens"), "{why:#}");
        drop(listener);
    }
}
