//! Answers of S3 to all requests of the device: any status, headers and body that a server may send.
use super::super::runtime;
use crate::Result;
use crate::ids::LogPlace;
use crate::stats::Cause;
use crate::wire::names::Name;
use crate::wire::remote::Remote;
use crate::wire::transport::Checked;
use async_trait::async_trait;
use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use reqwest::header::{HeaderName, HeaderValue};
use segno_testkit::Rng;
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

thread_local! {
    /// The answer to every request of this thread.
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Requests since it was set.
    static ASKED: Cell<u32> = const { Cell::new(0) };
    /// The time that each takes.
    static PACE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Requests that get the answer; a listing could continue for millions of names.
const MOST_ASKED: u32 = 300;

/// A server that has one answer.
#[derive(Debug)]
struct Server;

impl HttpConnector for Server {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Checked(Self)))
    }
}

#[async_trait]
impl HttpService for Server {
    async fn call(&self, _: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let pace = PACE.get();
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
        ASKED.set(ASKED.get() + 1);
        let is_over = pace.is_zero() && ASKED.get() > MOST_ASKED;
        Ok(ANSWER.with_borrow(|bytes| response(if is_over { b"400" } else { bytes })))
    }
}

/// Lines of a head, the first with the status, an empty line, and the body. Lines that no client would pass
/// on are omitted.
fn response(bytes: &[u8]) -> HttpResponse {
    let end = bytes.windows(2).position(|w| w == b"\n\n").unwrap_or(bytes.len());
    let body = bytes.get(end + 2..).unwrap_or_default().to_vec();
    let mut response = HttpResponse::new(body.into());
    let mut lines = bytes[..end].split(|b| *b == b'\n');
    *response.status_mut() = status(lines.next().unwrap_or_default()).try_into().unwrap_or_default();
    for line in lines {
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(value))
        {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn status(line: &[u8]) -> u16 {
    String::from_utf8_lossy(line).trim().parse().unwrap_or(200)
}

fn seeds() -> Vec<Vec<u8>> {
    let of = |request: u8, head: &str, body: &str| {
        [&[request], head.as_bytes(), b"\n\n", body.as_bytes()].concat()
    };
    let object = "200\nContent-Length: 26\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\nETag: \"abc\"";
    let part = "206\nContent-Length: 8\nContent-Range: bytes 4-11/26\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\nETag: \"abc\"";
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let item = |key: &str| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2024-01-02T03:04:05.000Z</LastModified><ETag>\"e\"</ETag><Size>7</Size></Contents>"
        )
    };
    let listing = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>b</Name><Prefix>p/log</Prefix><KeyCount>2</KeyCount>\
         <MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{}{}</ListBucketResult>",
        item("p/log/00000001/0000000000000002"),
        item("p/log/00000001/other")
    );
    let error = |code: &str| {
        format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message><Region>eu</Region></Error>"
        )
    };
    vec![
        of(0, object, letters),
        of(1, part, "efghijkl"),
        of(2, object, ""),
        of(3, "200\nContent-Type: application/xml", &listing),
        of(4, "200\nETag: \"abc\"\nx-amz-version-id: v", ""),
        of(5, "204", ""),
        of(0, "404", &error("NoSuchKey")),
        of(4, "412", &error("PreconditionFailed")),
        of(1, "416", &error("InvalidRange")),
        of(
            0,
            "301\nLocation: https://other.example/b\nx-amz-bucket-region: eu-1",
            &error("PermanentRedirect"),
        ),
    ]
}

/// For most inputs, sets the announced length to that of the body.
fn fix_checksums(input: &mut Vec<u8>, rng: &mut Rng) {
    let Some(end) = input.windows(2).position(|w| w == b"\n\n") else { return };
    let len = input.len() - end - 2;
    let name = b"Content-Length: ";
    let at = input[..end].windows(name.len()).position(|w| w == name);
    if let Some(at) = at.filter(|_| !rng.one_in(4)) {
        let digits = input[at + name.len()..end].iter().take_while(|b| **b != b'\n').count();
        input.splice(at + name.len()..at + name.len() + digits, len.to_string().into_bytes());
    }
}

struct Client {
    runtime: Runtime,
    store: Arc<dyn ObjectStore>,
}

impl Client {
    fn new() -> Self {
        let builder = AmazonS3Builder::new()
            .with_bucket_name("b")
            .with_endpoint("http://store.example")
            .with_region("r");
        let builder = builder.with_access_key_id("k").with_secret_access_key("s");
        let options = ClientOptions::new().with_allow_http(true);
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let store = builder
            .with_client_options(options)
            .with_http_connector(Server)
            .with_retry(retry)
            .build()
            .unwrap();
        Self { runtime: runtime(), store: Arc::new(store) }
    }

    /// A result has no more bytes than requested, and only names of the volume; an error has no control
    /// characters.
    fn ask(&self, input: &[u8]) -> Outcome {
        let (request, answer) = input.split_first().unwrap_or((&0, &[]));
        ANSWER.with_borrow_mut(|a| answer.clone_into(a));
        ASKED.set(0);
        let head = answer.split(|b| *b == b'\n').next().unwrap_or_default();
        let passed = matches!(status(head), 200..=299);
        let remote = Remote::new(self.store.clone(), Path::from("p"), Duration::from_secs(1));
        let name = Name::log(LogPlace::of(1, 2));
        let within = |bytes: Option<Bytes>, most: usize| match bytes {
            Some(bytes) if bytes.len() > most => {
                Err(format!("{} bytes, and {most} were asked for", bytes.len()))
            }
            _ => Ok(()),
        };
        let done: Result<Outcome> = self.runtime.block_on(async {
            Ok(match request {
                0 => within(remote.get_up_to(name, 30, Cause::Open).await?, 30).map(|()| passed),
                1 => within(remote.get_range(name, 4..12, Cause::Open).await?, 8).map(|()| passed),
                2 => remote.head(name, Cause::Open).await.map(|_| Ok(passed))?,
                3 => {
                    let names = remote.list("log", None, Cause::Open).await?;
                    if names.iter().all(|n| Name::parse(&n.to_string()).as_ref() == Some(n)) {
                        Ok(passed)
                    } else {
                        Err(format!("{names:?}"))
                    }
                }
                4 => remote
                    .create(name, Bytes::from_static(b"content"), Cause::Open)
                    .await
                    .map(|_| Ok(passed))?,
                _ => remote.delete(&[name], Cause::Open).await.map(|()| Ok(passed))?,
            })
        });
        match done.map_err(|e| e.to_string()) {
            Ok(outcome) => outcome,
            Err(text) if text.contains(char::is_control) => Err(format!("{text:?} has controls")),
            Err(_) => Ok(passed),
        }
    }
}

#[test]
fn fuzz_answers() {
    let words: &[&[u8]] = &[
        b"<",
        b"</Key>",
        b"&#27;",
        b"&lt;",
        b"<IsTruncated>true</IsTruncated>",
        b"<NextContinuationToken>t</NextContinuationToken>",
        b"\n\n",
        b"18446744073709551615",
        b"-1",
        b"*",
        b"bytes 0-25/26",
        b"../",
        b"%2e%2e/",
        b"503",
        b"206",
        b"200",
        b"400",
        b"<Code>SlowDown</Code>",
        b"\x1b[2J",
    ];
    let client = Client::new();
    let mutator = Mutator { seeds: seeds(), words, resized: 3, kept: 1, fixup: &fix_checksums };
    let target = Target {
        name: "answers",
        runs: 1_000,
        draw: &|rng| mutator.draw(rng),
        run: &|i: &Vec<u8>| client.ask(i),
    };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}

/// Its pages have no names, and each announces another page: no limit on names ends that.
#[test]
fn a_listing_of_empty_pages_without_an_end_is_given_up() {
    let client = Client::new();
    let page = "200\n\n<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>";
    ANSWER.with_borrow_mut(|a| *a = page.into());
    PACE.set(Duration::from_millis(300));
    let remote = Remote::new(client.store.clone(), Path::from("p"), Duration::from_secs(60));
    let why = client.runtime.block_on(remote.list("log", None, Cause::Open)).unwrap_err().to_string();
    assert!(why.contains("a listing without a name for 300 s"), "{why}");
    assert_eq!(ASKED.get() / 1_000, 1, "pages of 300 ms each");
}
