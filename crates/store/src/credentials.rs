//! Credentials that may change while a volume is in use: the shared credentials file is read for every request. The
//! environment of a process stays as it is, so once the store has refused its key, the file's is tried in turn with it.
use crate::answer::Answer;
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::aws::AwsCredential;
use object_store::path::Path;
use object_store::{
    CopyOptions, CredentialProvider, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A key of the environment, a profile of a file, or both.
pub(crate) struct Credentials {
    fixed: Option<Arc<AwsCredential>>,
    file: PathBuf,
    profile: String,
    /// The other one was refused.
    use_file: AtomicBool,
}

impl Credentials {
    /// `None` if neither has a key, so that the client looks for others.
    pub(crate) fn new(fixed: Option<AwsCredential>, file: PathBuf, profile: String) -> Option<Self> {
        let use_file = AtomicBool::new(fixed.is_none());
        let found = Self { fixed: fixed.map(Arc::new), file, profile, use_file };
        (found.fixed.is_some() || found.of_file().is_some()).then_some(found)
    }

    fn of_file(&self) -> Option<Arc<AwsCredential>> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        parse(&text, &self.profile).map(Arc::new)
    }

    /// The store has refused what was given last.
    fn refuse(&self) {
        if self.fixed.is_some() {
            self.use_file.fetch_not(Ordering::Relaxed);
        }
    }
}

/// Not the keys.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "credentials, profile {} of {}", self.profile, self.file.display())
    }
}

#[async_trait]
impl CredentialProvider for Credentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        let of_file = self.use_file.load(Ordering::Relaxed).then(|| self.of_file()).flatten();
        of_file.or_else(|| self.fixed.clone()).ok_or_else(|| Error::Unauthenticated {
            path: self.file.display().to_string(),
            source: format!("no key in profile {} of {}", self.profile, self.file.display()).into(),
        })
    }
}

/// The key of a profile.
fn parse(text: &str, profile: &str) -> Option<AwsCredential> {
    let (mut is_there, mut key_id, mut secret_key, mut token) = (false, None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_there = name.trim() == profile;
        } else if is_there && let Some((name, value)) = line.split_once('=') {
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential { key_id: key_id?, secret_key: secret_key?, token })
}

/// A store whose refusals its credentials learn of.
#[derive(Debug)]
pub(crate) struct Renewed<S> {
    pub store: S,
    pub credentials: Arc<Credentials>,
}

impl<S> Renewed<S> {
    fn note<T>(&self, answer: Result<T>) -> Result<T> {
        note(&self.credentials, answer)
    }

    fn notes<T: Send + 'static>(
        &self,
        answers: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let credentials = self.credentials.clone();
        answers.map(move |answer| note(&credentials, answer)).boxed()
    }
}

fn note<T>(credentials: &Credentials, answer: Result<T>) -> Result<T> {
    answer.inspect_err(|e| {
        if matches!(Answer::of(e), Answer::Denied(_)) {
            credentials.refuse();
        }
    })
}

impl<S: fmt::Display> fmt::Display for Renewed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for Renewed<S> {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.note(self.store.put_opts(at, payload, options).await)
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.note(self.store.put_multipart_opts(at, options).await)
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.note(self.store.get_opts(at, options).await)
    }

    fn delete_stream(&self, places: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.notes(self.store.delete_stream(places))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.notes(self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.notes(self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.note(self.store.list_with_delimiter(prefix).await)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.note(self.store.copy_opts(from, to, options).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use object_store::aws::AmazonS3Builder;
    use object_store::{ClientOptions, ObjectStoreExt, RetryConfig};
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn key(credentials: &Credentials) -> Option<String> {
        let found = credentials.get_credential().now_or_never().unwrap();
        found.ok().map(|found| {
            format!("{}:{}:{}", found.key_id, found.secret_key, found.token.as_deref().unwrap_or("-"))
        })
    }

    fn fixed() -> Option<AwsCredential> {
        Some(AwsCredential { key_id: "env".into(), secret_key: "1".into(), token: None })
    }

    /// Answers requests with one key, and denies all others.
    fn serve(server: &TcpListener, key: &str, requests: usize) -> Vec<bool> {
        (0..requests)
            .map(|_| {
                let (mut client, _) = server.accept().unwrap();
                let mut request = [0; 8192];
                let len = client.read(&mut request).unwrap();
                let known = String::from_utf8_lossy(&request[..len]).contains(&format!("Credential={key}/"));
                let denied = "<Error><Code>InvalidAccessKeyId</Code></Error>";
                let (status, body) = if known { ("200 OK", "content") } else { ("403 Forbidden", denied) };
                let head = "ETag: \"1\"\r\nLast-Modified: Thu, 26 Nov 2026 12:00:00 GMT\r\nConnection: close";
                write!(client, "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                    .unwrap();
                known
            })
            .collect()
    }

    #[test]
    fn a_request_that_was_denied_succeeds_with_the_new_key_of_the_file() {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("credentials");
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", server.local_addr().unwrap());
        let serving = std::thread::spawn(move || serve(&server, "new", 4));
        let credentials = Arc::new(Credentials::new(fixed(), file.clone(), "default".into()).unwrap());
        let store = AmazonS3Builder::new()
            .with_bucket_name("b")
            .with_endpoint(endpoint)
            .with_region("r")
            .with_credentials(credentials.clone())
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .build()
            .unwrap();
        let store = Renewed { store, credentials };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let get = || {
            let at = Path::from("p/volume");
            runtime.block_on(async { store.get(&at).await?.bytes().await })
        };
        for _ in 0..2 {
            assert!(matches!(Answer::of(&get().unwrap_err()), Answer::Denied(_)));
        }
        std::fs::write(&file, "[default]\naws_access_key_id=new\naws_secret_access_key=x\n").unwrap();
        // The key of the environment and that of the file take turns until one is accepted.
        assert!(get().is_err());
        assert_eq!(get().unwrap(), "content");
        assert_eq!(serving.join().unwrap(), [false, false, false, true]);
    }

    #[test]
    fn a_file_is_read_again_and_takes_the_place_of_a_key_that_was_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("credentials");
        let new = |fixed, profile: &str| Credentials::new(fixed, file.clone(), profile.into());
        assert!(new(None, "default").is_none());
        let of_env = new(fixed(), "default").unwrap();
        of_env.refuse();
        assert_eq!(key(&of_env).as_deref(), Some("env:1:-"), "there is no file");
        std::fs::write(
            &file,
            "# mine\n[default]\naws_access_key_id = a\naws_secret_access_key=b\n\n[ other ]\naws_access_key_id=c\n\
             aws_secret_access_key=d=\naws_session_token=e\n",
        )
        .unwrap();
        assert_eq!(key(&of_env).as_deref(), Some("a:b:-"));
        of_env.refuse();
        assert_eq!(key(&of_env).as_deref(), Some("env:1:-"), "the file may be for another store");
        let other = new(None, "other").unwrap();
        assert_eq!(key(&other).as_deref(), Some("c:d=:e"));
        std::fs::write(&file, "[other]\naws_access_key_id=f\naws_secret_access_key=g\n").unwrap();
        assert_eq!(key(&other).as_deref(), Some("f:g:-"));
        std::fs::write(&file, "[other]\naws_access_key_id=f\n").unwrap();
        assert_eq!(key(&other), None);
        assert!(new(None, "other").is_none() && new(fixed(), "other").is_some());
    }
}
