//! A store with S3's protocol on a directory, whose answers a test may replace. Each request has its own connection.
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// A request.
pub struct Asked {
    pub method: String,
    /// Behind the bucket, without a slash in front.
    pub key: String,
    pub query: BTreeMap<String, String>,
    pub headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Asked {
    pub fn is_list(&self) -> bool {
        self.query.contains_key("list-type")
    }

    pub fn is_conditional(&self) -> bool {
        self.headers.contains_key("if-none-match")
    }

    /// First and last byte.
    fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// `Content-Length`, if it is not the length of the body; no header if it is empty.
    pub length: Option<String>,
    /// Bytes that follow, or as many of them as the client takes.
    pub endless: u64,
}

impl Answer {
    pub fn error(status: &'static str, code: &str) -> Self {
        let body = if code.is_empty() {
            String::new()
        } else {
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message></Error>")
        };
        Self { status, body: body.into_bytes(), ..Self::default() }
    }
}

/// Changes the answer that a directory gives.
type Change = dyn Fn(&Asked, Answer) -> Answer + Send + Sync;

pub struct S3 {
    pub endpoint: String,
    /// Lines of `METHOD KEY`, with a mark if the request was conditional.
    pub asked: Arc<Mutex<Vec<String>>>,
    /// Bytes sent beyond headers.
    pub sent: Arc<Mutex<u64>>,
}

impl S3 {
    /// Serves the bucket in a directory.
    pub fn serve(root: &Path, change: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (asked, sent) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<u64>>::default());
        let store = Arc::new(Store {
            root: root.to_owned(),
            change: Box::new(change),
            asked: asked.clone(),
            sent: sent.clone(),
        });
        thread::spawn(move || {
            for client in listener.incoming() {
                let store = store.clone();
                // A client that ends early is the test's.
                thread::spawn(move || store.answer(client.unwrap()));
            }
        });
        Self { endpoint, asked, sent }
    }
}

struct Store {
    root: PathBuf,
    change: Box<Change>,
    asked: Arc<Mutex<Vec<String>>>,
    sent: Arc<Mutex<u64>>,
}

impl Store {
    fn answer(&self, mut client: TcpStream) -> Option<()> {
        let asked = read(&client)?;
        let mark = if asked.is_conditional() { " if-none-match" } else { "" };
        self.asked.lock().push(format!("{} {}{mark}", asked.method, asked.key));
        let answer = (self.change)(&asked, self.plain(&asked));
        let mut head = format!("HTTP/1.1 {}\r\nConnection: close\r\n", answer.status);
        for (name, value) in &answer.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let length = answer.length.unwrap_or_else(|| answer.body.len().to_string());
        if !length.is_empty() {
            head += &format!("Content-Length: {length}\r\n");
        }
        client.write_all(format!("{head}\r\n").as_bytes()).ok()?;
        if asked.method == "HEAD" {
            return None;
        }
        client.write_all(&answer.body).ok()?;
        *self.sent.lock() += answer.body.len() as u64;
        let (filler, mut left) = ([b' '; 64 << 10], answer.endless);
        while left > 0 {
            client.write_all(&filler).ok()?;
            left = left.saturating_sub(filler.len() as u64);
            *self.sent.lock() += filler.len() as u64;
        }
        Some(())
    }

    fn plain(&self, asked: &Asked) -> Answer {
        let at = self.root.join(&asked.key);
        match asked.method.as_str() {
            "GET" if asked.is_list() => self.list(asked),
            "GET" | "HEAD" => match fs::read(&at) {
                Ok(bytes) => part(asked, bytes),
                Err(_) => Answer::error("404 Not Found", "NoSuchKey"),
            },
            "PUT" if asked.is_conditional() && at.exists() => {
                Answer::error("412 Precondition Failed", "PreconditionFailed")
            }
            "PUT" => {
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                fs::write(at, &asked.body).unwrap();
                object("200 OK", Vec::new())
            }
            _ => self.delete(asked),
        }
    }

    fn delete(&self, asked: &Asked) -> Answer {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        let keys: Vec<&str> = body.split("<Key>").skip(1).filter_map(|k| k.split("</Key>").next()).collect();
        let mut done = String::new();
        for key in keys {
            let _gone_already = fs::remove_file(self.root.join(key));
            done += &format!("<Deleted><Key>{key}</Key></Deleted>");
        }
        let body = format!("<?xml version=\"1.0\"?><DeleteResult>{done}</DeleteResult>").into_bytes();
        Answer { status: "200 OK", body, ..Answer::default() }
    }

    fn list(&self, asked: &Asked) -> Answer {
        let of = |name: &str| asked.query.get(name).cloned().unwrap_or_default();
        let (prefix, after) = (of("prefix"), of("start-after"));
        let mut keys = Vec::new();
        walk(&self.root, &self.root, &mut keys);
        keys.retain(|(key, _)| key.starts_with(&prefix) && *key > after);
        keys.sort();
        let entries: String = keys.iter().map(|(key, size)| entry(key, *size)).collect();
        let body = format!(
            "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        );
        Answer { status: "200 OK", body: body.into_bytes(), ..Answer::default() }
    }
}

pub fn entry(key: &str, size: u64) -> String {
    format!(
        "<Contents><Key>{key}</Key><LastModified>2026-11-26T12:00:00.000Z</LastModified><ETag>\"1\"</ETag><Size>{size}</Size></Contents>"
    )
}

fn object(status: &'static str, body: Vec<u8>) -> Answer {
    let headers =
        vec![("ETag", "\"1\"".to_owned()), ("Last-Modified", "Thu, 26 Nov 2026 12:00:00 GMT".to_owned())];
    Answer { status, headers, body, ..Answer::default() }
}

fn part(asked: &Asked, bytes: Vec<u8>) -> Answer {
    let Some((first, last)) = asked.range() else { return object("200 OK", bytes) };
    let end = bytes.len().min(last + 1);
    if first >= end {
        return Answer::error("416 Range Not Satisfiable", "InvalidRange");
    }
    let mut answer = object("206 Partial Content", bytes[first..end].to_vec());
    answer.headers.push(("Content-Range", format!("bytes {first}-{}/{}", end - 1, bytes.len())));
    answer
}

fn walk(root: &Path, dir: &Path, keys: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => walk(root, &entry.path(), keys),
            Ok(meta) => {
                let key = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                keys.push((key, meta.len()));
            }
            // Deleted meanwhile.
            Err(_) => {}
        }
    }
}

fn read(client: &TcpStream) -> Option<Asked> {
    let mut from = BufReader::new(client);
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (_bucket, key) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), decoded(value))
    };
    Some(Asked {
        method,
        key: decoded(key),
        query: query.split('&').filter(|q| !q.is_empty()).map(pair).collect(),
        headers,
        body,
    })
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        out.push(char::from(u8::from_str_radix(code, 16).unwrap()));
        out += rest;
    }
    out
}
