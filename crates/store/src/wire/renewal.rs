//! A store whose refusals of a key reach the credentials.
use crate::wire::answer::Answer;
use crate::wire::credentials::Credentials;
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::Arc;

/// A store that reports refusals to its credentials.
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
