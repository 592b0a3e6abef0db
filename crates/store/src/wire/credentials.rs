//! Credentials that may change while a volume is in use: the shared credentials file is read for every
//! request. The environment of a process does not change, so once the store has refused its key, that key and
//! the file's key are tried in turn.
use crate::wire::profile::Profile;
use async_trait::async_trait;
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Error, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names the places where a key was looked for, and the remedy. `service` is a further place.
pub(crate) fn none_found(profile: &Profile, service: &str) -> String {
    format!(
        "there are no credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in {}{service}: {NO_KEYS}",
        profile.describe()
    )
}

const NO_KEYS: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile with aws_access_key_id \
     and aws_secret_access_key in ~/.aws/credentials or ~/.aws/config; for other ways to log in, `aws configure export-credentials \
     --format env` prints what to set";

/// A key of the environment, that of a profile, or both.
pub(crate) struct Credentials {
    fixed: Option<Arc<AwsCredential>>,
    profile: Profile,
    /// Whether the key of the profile is used, as the other one was refused.
    use_profile: AtomicBool,
}

impl Credentials {
    /// `None` if neither has a key.
    pub(crate) fn new(fixed: Option<AwsCredential>, profile: Profile) -> Option<Self> {
        let use_profile = AtomicBool::new(fixed.is_none());
        let found = Self { fixed: fixed.filter(is_sendable).map(Arc::new), profile, use_profile };
        (found.fixed.is_some() || found.of_profile().is_some()).then_some(found)
    }

    fn of_profile(&self) -> Option<Arc<AwsCredential>> {
        self.profile.key().filter(is_sendable).map(Arc::new)
    }

    /// Records that the store has refused the key that was given last.
    pub(crate) fn refuse(&self) {
        if self.fixed.is_some() {
            self.use_profile.fetch_not(Ordering::Relaxed);
        }
    }
}

/// Whether a key can be sent: headers allow no other characters.
pub(crate) fn is_sendable(key: &AwsCredential) -> bool {
    let is = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    is(&key.key_id) && is(&key.secret_key) && key.token.as_deref().is_none_or(is)
}

/// Does not show the keys.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "credentials, {}", self.profile.describe())
    }
}

#[async_trait]
impl CredentialProvider for Credentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        let of_profile = self.use_profile.load(Ordering::Relaxed).then(|| self.of_profile()).flatten();
        of_profile.or_else(|| self.fixed.clone()).ok_or_else(|| Error::Unauthenticated {
            path: self.profile.credentials.display().to_string(),
            source: format!("no key in {}", self.profile.describe()).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::answer::Answer;
    use crate::wire::renewal::Renewed;
    use futures_util::FutureExt;
    use object_store::aws::AmazonS3Builder;
    use object_store::path::Path;
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

    fn profile(file: &std::path::Path, name: &str) -> Profile {
        let (credentials, config) = (file.to_owned(), file.with_extension("config"));
        Profile { name: name.into(), is_named: true, credentials, config }
    }

    #[test]
    fn a_key_that_no_header_can_have_is_no_key() {
        let file = std::path::Path::new("/nonexistent");
        for bad in ["a b", "a\n", "ä", "\u{7f}"] {
            let fixed = AwsCredential { key_id: bad.into(), secret_key: "s".into(), token: None };
            assert!(Credentials::new(Some(fixed), profile(file, "default")).is_none(), "{bad:?}");
        }
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
        let credentials = Arc::new(Credentials::new(fixed(), profile(&file, "default")).unwrap());
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
        let new = |fixed, name: &str| Credentials::new(fixed, profile(&file, name));
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
