//! The meaning of a failed request. Every request of every command is judged here.
use crate::wire::credentials::none_found;
use crate::wire::profile::Profile;
use crate::wire::transport;
use object_store::Error;
use std::error::Error as _;

/// Codes of S3, of any status, that a new key ends; each with the next step.
const DENIALS: [(&str, &str); 6] = [
    ("AccessDenied", "the key needs the right to get, put, list and delete objects below the prefix"),
    ("ExpiredToken", "put a new key and session token into the environment or the shared credentials file"),
    ("InvalidAccessKeyId", KEYS),
    ("InvalidToken", "AWS_SESSION_TOKEN does not belong to the key: set or unset it"),
    ("RequestTimeTooSkewed", "the clock of this host is wrong"),
    ("SignatureDoesNotMatch", KEYS),
];
const KEYS: &str = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile that AWS_PROFILE names";

/// Codes of S3, of any status, for a wrong region.
const REGIONS: [&str; 5] = [
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "InvalidRegion",
    "PermanentRedirect",
    "TemporaryRedirect",
];
const REGION: &str = "set AWS_REGION to the region of the bucket";

/// Codes of S3 with status 400 that a repetition may change.
const PASSING: [&str; 5] =
    ["BadDigest", "IncompleteBody", "InternalError", "RequestTimeout", "XAmzContentSHA256Mismatch"];

/// Texts of the client about answers that it cannot use.
const PROTOCOL: [&str; 6] = [
    "Header missing from response",
    "header containing non-ASCII",
    "Invalid last modified",
    "Invalid content length",
    "Received non-partial response",
    "Got invalid list response",
];

/// Characters of a text in a message.
const REASON_CHARS: usize = 400;

/// A failed request, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The object is absent.
    Absent,
    /// The object exists.
    Present,
    /// The object ends before the requested range. A repetition does not change that.
    Short,
    /// The store refuses the credentials. They are read again, and the request is repeated.
    Denied(String),
    /// A setting of this host does not fit the store; the text names it.
    Setup(String),
    /// The store rejects the request in its present form.
    Rejected(String),
    /// The store cannot do that, ever.
    Unsupported(String),
    /// An outage: the request is repeated.
    Outage(String),
}

impl Answer {
    /// A full store may be emptied, and credentials may be replaced; so requests are repeated in both cases.
    pub(crate) fn of(e: &Error) -> Self {
        let all = text(e);
        let (why, code) = (reason(&all), code(&all));
        match e {
            Error::NotFound { .. } => Self::Absent,
            Error::AlreadyExists { .. } | Error::Precondition { .. } => Self::Present,
            Error::NotSupported { .. } | Error::NotImplemented { .. } | Error::InvalidPath { .. } => {
                Self::Unsupported(why)
            }
            _ if code.is_some_and(|code| REGIONS.contains(&code)) => Self::Setup(format!("{why}: {REGION}")),
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Self::Denied(why),
            _ if code.is_some_and(|code| DENIALS.iter().any(|(denial, _)| *denial == code)) => {
                Self::Denied(why)
            }
            _ if is_short(&all) => Self::Short,
            _ => Self::of_text(&all, why, code),
        }
    }

    /// Errors that the client has no kind for.
    fn of_text(all: &str, why: String, code: Option<&str>) -> Self {
        if let Some(setup) = setup(all) {
            return Self::Setup(setup);
        }
        match status(all).unwrap_or_default() {
            status if status.starts_with("501") => Self::Unsupported(why),
            status if status.starts_with("400") && code.is_none_or(|code| !PASSING.contains(&code)) => {
                Self::Rejected(why)
            }
            _ if all.contains(transport::TOO_LONG) => Self::Rejected(transport::TOO_LONG.to_owned()),
            "" if PROTOCOL.iter().any(|text| all.contains(text)) => {
                Self::Rejected(format!("its answer is not that of S3's protocol ({why})"))
            }
            _ => Self::Outage(why),
        }
    }

    /// Whether it concerns the store or the connection, not the object.
    pub(crate) fn is_of_store(&self) -> bool {
        !matches!(self, Self::Absent | Self::Present | Self::Short)
    }
}

/// The next step after a refusal of the credentials.
pub(crate) fn next_step(why: &str) -> &'static str {
    DENIALS.iter().find(|(code, _)| why.contains(code)).map_or(KEYS, |(_, next)| next)
}

/// The setting of this host that does not fit the store, if one is the reason.
fn setup(all: &str) -> Option<String> {
    if all.contains("/latest/api/token") || all.contains("/latest/meta-data/") {
        let profile = Profile::of_env(|name| std::env::var(name).ok());
        return Some(none_found(&profile, ", and this machine is no instance that gives any"));
    }
    // The rest of a text with a status is the store's.
    if status(all).is_some() {
        return None;
    }
    if let Some((_, to)) = all.split_once(transport::REDIRECTED) {
        return Some(format!("{}{to}", transport::REDIRECTED));
    }
    if let Some(at) = all.find("invalid peer certificate") {
        let why = all.get(at..).unwrap_or_default();
        return Some(format!(
            "the store's certificate is not trusted ({why}): install the certificate of its authority on this host, or name a file \
             with it in SSL_CERT_FILE"
        ));
    }
    if all.contains("received corrupt message") {
        return Some(
            "the endpoint does not answer in TLS: set AWS_ENDPOINT_URL_S3 to its port for https".to_owned(),
        );
    }
    None
}

/// The error and its causes, each once.
fn text(e: &Error) -> String {
    let mut all = e.to_string();
    let mut cause = e.source();
    while let Some(e) = cause {
        let next = e.to_string();
        if !all.contains(&next) {
            all = format!("{all}: {next}");
        }
        cause = e.source();
    }
    all
}

/// The text is the client's, which knows the length; the status is the store's.
fn is_short(all: &str) -> bool {
    all.contains("Wanted range starting at") || status(all).is_some_and(|status| status.starts_with("416"))
}

/// Status, and the code that a store gives as XML; the beginning of the text if it is not an answer of a
/// store.
fn reason(all: &str) -> String {
    match (status(all), code(all)) {
        (Some(status), Some(code)) => format!("{status} ({code})"),
        (Some(status), None) => status.to_owned(),
        _ => all.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect(),
    }
}

/// Number and name, such as `403 Forbidden`.
fn status(all: &str) -> Option<&str> {
    let (_, rest) = all.split_once("status code: ")?;
    rest.split([':', '\n']).next().map(str::trim)
}

fn code(all: &str) -> Option<&str> {
    let (_, rest) = all.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    (code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use object_store::path::Path;
    use object_store::{ClientOptions, ObjectStoreExt, RetryConfig};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// The error of a client that gets this answer to its only request.
    fn answered(status: &str, body: &str) -> Error {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", server.local_addr().unwrap());
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        let serving = thread::spawn(move || {
            let (mut client, _) = server.accept().unwrap();
            let _request = client.read(&mut [0; 8192]).unwrap();
            client.write_all(answer.as_bytes()).unwrap();
        });
        let store = crate::tests::s3(endpoint)
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let e = runtime.block_on(store.get_range(&Path::from("p/log"), 70..90)).unwrap_err();
        serving.join().unwrap();
        e
    }

    #[test]
    fn each_status_of_a_store_has_one_meaning() {
        let xml = |code: &str| {
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message></Error>")
        };
        let denied = |why: &str| Answer::Denied(why.into());
        let outage = |why: &str| Answer::Outage(why.into());
        let rejected = |why: &str| Answer::Rejected(why.into());
        let region = |status: &str| {
            Answer::Setup(format!(
                "{status} (AuthorizationHeaderMalformed): set AWS_REGION to the region of the bucket"
            ))
        };
        for (status, body, expected) in [
            ("404 Not Found", xml("NoSuchKey"), Answer::Absent),
            ("412 Precondition Failed", xml("PreconditionFailed"), Answer::Present),
            ("409 Conflict", xml("ConditionalRequestConflict"), Answer::Present),
            ("416 Range Not Satisfiable", xml("InvalidRange"), Answer::Short),
            ("416 Range Not Satisfiable", String::new(), Answer::Short),
            ("403 Forbidden", xml("InvalidAccessKeyId"), denied("403 Forbidden (InvalidAccessKeyId)")),
            ("403 Forbidden", xml("SignatureDoesNotMatch"), denied("403 Forbidden (SignatureDoesNotMatch)")),
            ("403 Forbidden", String::new(), denied("403 Forbidden")),
            ("401 Unauthorized", String::new(), denied("401 Unauthorized")),
            ("400 Bad Request", xml("ExpiredToken"), denied("400 Bad Request (ExpiredToken)")),
            ("400 Bad Request", xml("RequestTimeout"), outage("400 Bad Request (RequestTimeout)")),
            ("400 Bad Request", xml("InvalidArgument"), rejected("400 Bad Request (InvalidArgument)")),
            ("400 Bad Request", String::new(), rejected("400 Bad Request")),
            ("400 Bad Request", xml("AuthorizationHeaderMalformed"), region("400 Bad Request")),
            ("403 Forbidden", xml("AuthorizationHeaderMalformed"), region("403 Forbidden")),
            (
                "501 Not Implemented",
                xml("NotImplemented"),
                Answer::Unsupported("501 Not Implemented (NotImplemented)".into()),
            ),
            ("501 Not Implemented", String::new(), Answer::Unsupported("501 Not Implemented".into())),
            ("429 Too Many Requests", String::new(), outage("429 Too Many Requests")),
            (
                "500 Internal Server Error",
                xml("InternalError"),
                outage("500 Internal Server Error (InternalError)"),
            ),
            ("503 Service Unavailable", xml("SlowDown"), outage("503 Service Unavailable (SlowDown)")),
            ("507 Insufficient Storage", String::new(), outage("507 Insufficient Storage")),
        ] {
            assert_eq!(Answer::of(&answered(status, &body)), expected, "{status} {body}");
        }
    }

    #[test]
    fn each_error_of_a_directory_has_one_meaning() {
        let dir = tempfile::tempdir().unwrap();
        let store = object_store::local::LocalFileSystem::new_with_prefix(dir.path()).unwrap();
        std::fs::write(dir.path().join("empty"), b"").unwrap();
        let of = |name: &str| {
            let name = Path::from(name);
            Answer::of(&store.get_range(&name, 7..9).now_or_never().unwrap().unwrap_err())
        };
        assert_eq!(of("absent"), Answer::Absent);
        assert_eq!(of("empty"), Answer::Short);
    }
}
