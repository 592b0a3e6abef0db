//! Saved images: images that revealed bugs, and shapes that random draws produce rarely.
use super::edit::Image;
use std::fs;
use std::path::Path;

/// Saved images by name, one per file of `corpus/hostile`.
pub fn load() -> Result<Vec<(String, Image)>, String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/hostile");
    let text = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut out = Vec::new();
    for entry in fs::read_dir(&dir).map_err(text)? {
        let path = entry.map_err(text)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(text)?;
        out.push((name.clone(), text.parse().map_err(|e| format!("{name}: {e}"))?));
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(out)
}
