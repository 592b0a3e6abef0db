//! Stores with TLS.
use crate::wire::answer::Answer;
use crate::wire::transport::Connector;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStoreExt, RetryConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

/// Self-signed, for the right name; valid for a hundred years.
const CERTIFICATE: &[u8] = include_bytes!("data/untrusted.crt.der");
const KEY: &[u8] = include_bytes!("data/untrusted.key.der");

/// The setting that is wrong for a store at this endpoint.
fn wrong_setting(endpoint: String) -> String {
    let store = super::s3(endpoint)
        .with_client_options(ClientOptions::new())
        .with_http_connector(Connector { direct: true })
        .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let e = runtime.block_on(store.get(&Path::from("p/volume"))).map(|_| ()).unwrap_err();
    match Answer::of(&e) {
        Answer::Setup(why) => why,
        other => panic!("{other:?}"),
    }
}

/// No answer of the store changes that, so it is no outage.
#[test]
fn a_certificate_that_is_not_trusted_is_said_at_once() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::try_from(KEY).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key).unwrap());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://localhost:{}", server.local_addr().unwrap().port());
    thread::spawn(move || {
        for client in server.incoming() {
            let mut tls = ServerConnection::new(config.clone()).unwrap();
            // It fails, as the client refuses the certificate.
            let _refused = tls.complete_io(&mut client.unwrap());
        }
    });
    let why = wrong_setting(endpoint);
    assert!(why.contains("certificate is not trusted") && why.contains("SSL_CERT_FILE"), "{why}");
}

#[test]
fn an_endpoint_without_tls_is_said_at_once() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://localhost:{}", server.local_addr().unwrap().port());
    thread::spawn(move || {
        for client in server.incoming() {
            let mut client = client.unwrap();
            let _hello = client.read(&mut [0; 4096]).unwrap();
            // The client may have ended.
            let _sent = client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let why = wrong_setting(endpoint);
    assert!(why.contains("TLS") && why.contains("AWS_ENDPOINT_URL_S3"), "{why}");
}
