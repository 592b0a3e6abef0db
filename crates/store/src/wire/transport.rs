//! HTTP to the store, and checks of its answers. No redirect is followed, as a request has a signature or a
//! token, and the content of objects. Answers that the client collects as a whole are bounded here; objects
//! are bounded where they are read.
use crate::wire::body::{Content, collect};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Error, HeaderMap};
use std::time::Duration;

/// Time after which a request without an answer has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const METADATA_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of an answer that is no object: a page of a listing, of up to 1,000 names.
const ANSWER_MAX: usize = 16 << 20;
/// Bytes kept of an error.
const ERROR_MAX: usize = 64 << 10;

/// Prefixes of error texts.
pub(crate) const TOO_LONG: &str = "the store's answer is longer than it can be";
pub(crate) const REDIRECTED: &str = "the store redirects";

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{TOO_LONG}")]
    Long,
    /// A redirect, with its destination.
    #[error(
        "{REDIRECTED}{0}, which is not followed, as the request has the key's signature: set AWS_REGION to the region of the bucket, and \
         AWS_ENDPOINT_URL_S3 to the store's own address"
    )]
    Redirect(String),
    #[error("not enough memory for the store's answer")]
    Memory,
}

fn refused(why: Refused) -> HttpError {
    HttpError::new(HttpErrorKind::Decode, why)
}

/// Makes clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connector {
    /// Whether proxies of the environment are ignored: the store is on this host, and is trusted for that
    /// reason.
    pub direct: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let is = |key, value: &str| options.get_config_value(&key).is_some_and(|of| of == value);
        // A client for services that give credentials, in plain HTTP on the same link.
        let is_metadata = is(ClientConfigKey::ConnectTimeout, "1s");
        let builder = reqwest::Client::builder()
            .user_agent(concat!("segno/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!is(ClientConfigKey::AllowHttp, "true"))
            .http1_only()
            .timeout(REQUEST_TIMEOUT)
            .connect_timeout(if is_metadata { METADATA_TIMEOUT } else { CONNECT_TIMEOUT });
        let builder = if self.direct || is_metadata { builder.no_proxy() } else { builder };
        let client = builder.build();
        let client = client.map_err(|e| Error::Generic { store: "HTTP client", source: e.into() })?;
        Ok(HttpClient::new(Checked(client)))
    }
}

/// A client whose answers are checked.
#[derive(Debug)]
pub(crate) struct Checked<S>(pub S);

#[async_trait]
impl<S: HttpService> HttpService for Checked<S> {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_object = request.method().as_str() == "GET" && request.uri().query().is_none();
        let (head, body) = self.0.call(request).await?.into_parts();
        if head.status.is_redirection() && head.status.as_u16() != 304 {
            return Err(refused(Refused::Redirect(place(&head.headers))));
        }
        // The client adds one to the last byte.
        let range = head.headers.get("content-range").and_then(|range| range.to_str().ok());
        if range.is_some_and(|range| range.contains(&u64::MAX.to_string())) {
            return Err(refused(Refused::Long));
        }
        let body = match (head.status.is_success(), is_object) {
            (true, true) => body,
            (true, false) => whole(body).await?.into(),
            (false, _) => error(body).await?.into(),
        };
        Ok(HttpResponse::from_parts(head, body))
    }
}

/// Where a redirect leads, as far as it is printable.
fn place(headers: &HeaderMap) -> String {
    let value = |name: &str| headers.get(name)?.to_str().ok();
    let host = value("location").and_then(|to| reqwest::Url::parse(to).ok()?.host_str().map(str::to_owned));
    let region = value("x-amz-bucket-region");
    let region = region.filter(|r| r.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    match (host, region) {
        (_, Some(region)) => format!(" to region {region}"),
        (Some(host), None) => format!(" to {host}"),
        (None, None) => String::new(),
    }
}

async fn whole(body: HttpResponseBody) -> Result<Bytes, HttpError> {
    match collect(body.bytes_stream(), ANSWER_MAX, 0).await? {
        Content::Bytes(bytes) => Ok(bytes),
        Content::Long => Err(refused(Refused::Long)),
        Content::NoMemory => Err(refused(Refused::Memory)),
    }
}

/// The text of an error, up to `ERROR_MAX` bytes. The rest is not read.
async fn error(body: HttpResponseBody) -> Result<Vec<u8>, HttpError> {
    let mut chunks = body.bytes_stream();
    let mut all = Vec::new();
    while all.len() < ERROR_MAX
        && let Some(chunk) = chunks.try_next().await?
    {
        all.extend_from_slice(chunk.get(..chunk.len().min(ERROR_MAX - all.len())).unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&all).into_owned().into_bytes())
}
