//! The content of files: a function of their names.
/// Numbered lines that begin with the name, so no block of a file is like another one.
pub fn content(name: &str, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 64);
    for i in 1.. {
        if out.len() >= bytes {
            break;
        }
        out.extend_from_slice(format!("{name} {i}\n").as_bytes());
    }
    out.truncate(bytes);
    out
}
