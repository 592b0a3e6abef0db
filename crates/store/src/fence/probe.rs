//! A probe for conditional creation, without which a second writer cannot be kept out.
use crate::ids::{hex, random};
use crate::stats::Cause;
use crate::wire::remote::{Created, Remote};
use crate::{Result, StoreError};
use bytes::Bytes;

/// Whether the store has conditional creation: it accepts the condition, and refuses to create a name twice.
pub(crate) async fn is_conditional(remote: &Remote) -> Result<bool> {
    let name = format!("probe/{}", hex(&random()?));
    let first = remote.create_at(&name, Bytes::from_static(b"first"), Cause::Open).await;
    let second = match first {
        Ok(Created::Ours) => remote.create_at(&name, Bytes::from_static(b"second"), Cause::Open).await,
        // The condition is the reason if the store accepts the same object without it.
        Err(refusal @ StoreError::Refused { .. }) => {
            remote.put_at(&name, Bytes::from_static(b"first"), Cause::Open).await.map_err(|_| refusal)?;
            remote.delete_at(&name, Cause::Open).await?;
            return Ok(false);
        }
        other => other,
    };
    remote.delete_at(&name, Cause::Open).await?;
    Ok(matches!(second?, Created::Other(found) if found == "first"))
}
