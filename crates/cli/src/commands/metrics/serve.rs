//! Metrics over HTTP, for a local collector: one GET for each connection.
use anyhow::{Context, Result, bail};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A client that sends or reads nothing is dropped after this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections served at a time; further ones are closed at once.
const MOST_CLIENTS: usize = 16;
const LONGEST_REQUEST: u64 = 8192;

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

/// A connection of either kind.
trait Client: Read + Write + Send + Sized + 'static {
    fn limit(&self) -> io::Result<()>;
}

impl Client for TcpStream {
    fn limit(&self) -> io::Result<()> {
        self.set_read_timeout(Some(PATIENCE))?;
        self.set_write_timeout(Some(PATIENCE))
    }
}

impl Client for UnixStream {
    fn limit(&self) -> io::Result<()> {
        self.set_read_timeout(Some(PATIENCE))?;
        self.set_write_timeout(Some(PATIENCE))
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
            serve(|| Ok(listener.accept()?.0), content_type, &collect)
        }
        Address::Unix(path) => {
            remove_stale(path)?;
            let listener = UnixListener::bind(path).map_err(|e| in_use(e, path.display().to_string()))?;
            println!("unix:{}", path.display());
            serve(|| Ok(listener.accept()?.0), content_type, &collect)
        }
    }
}

/// A socket that a killed process left, and nothing else.
fn remove_stale(path: &Path) -> Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    if UnixStream::connect(path).is_ok() {
        bail!("{} is in use by another process: choose another", path.display());
    }
    std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))
}

fn serve<C: Client>(
    accept: impl Fn() -> io::Result<C>,
    content_type: &str,
    collect: &(impl Fn() -> Result<String> + Sync),
) -> Result<()> {
    let clients = AtomicUsize::new(0);
    thread::scope(|scope| {
        loop {
            let client = accept().context("cannot accept a connection")?;
            if clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let clients = &clients;
            scope.spawn(move || {
                // A client that fails harms only itself.
                let _failed = answer(client, content_type, collect);
                clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}

fn answer(
    mut client: impl Client,
    content_type: &str,
    collect: &impl Fn() -> Result<String>,
) -> io::Result<()> {
    client.limit()?;
    let line = request(&mut client)?;
    let (status, kind, body) = match line.split(' ').collect::<Vec<_>>().as_slice() {
        ["GET", "/metrics", _] => match collect() {
            Ok(body) => ("200 OK", content_type, body),
            Err(e) => ("503 Service Unavailable", "text/plain", format!("{e:#}\n")),
        },
        ["GET", _, _] => ("404 Not Found", "text/plain", "the metrics are at /metrics\n".to_owned()),
        _ => ("400 Bad Request", "text/plain", "only GET is served\n".to_owned()),
    };
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    client.flush()
}

/// The first line of a request; the headers after it are read and not used.
fn request(client: &mut impl Client) -> io::Result<String> {
    let mut lines = BufReader::new(client.take(LONGEST_REQUEST)).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for header in lines {
        if header?.is_empty() {
            break;
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &str, collect: &(impl Fn() -> Result<String> + Sync)) -> String {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(request.as_bytes()).unwrap();
        here.shutdown(std::net::Shutdown::Write).unwrap();
        let _closed_early = answer(there, "text/x", collect);
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
        assert!(ask("\r\n", &works).starts_with("HTTP/1.1 400 "));
        let gone = ask("GET /metrics HTTP/1.1\r\n\r\n", &|| bail!("the server of /mnt has died"));
        assert!(gone.starts_with("HTTP/1.1 503 ") && gone.ends_with("has died\n"), "{gone}");
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
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(remove_stale(&socket).unwrap_err().to_string().contains("in use"));
        drop(listener);
        remove_stale(&socket).unwrap();
        assert!(!socket.exists());
    }
}
