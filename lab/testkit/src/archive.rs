//! Bytes of tar archives, with entries that tar(1) does not write.

/// An archive, without its end.
#[derive(Clone, Debug, Default)]
pub struct Archive(pub Vec<u8>);

const BLOCK: usize = 512;

/// Sets the checksum of a header, as a reader computes it.
pub fn seal_header(header: &mut [u8]) {
    put(header, 148, b"        ");
    let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
    put(header, 148, format!("{sum:06o}\0 ").as_bytes());
}

fn put(header: &mut [u8], at: usize, text: &[u8]) {
    header.iter_mut().skip(at).zip(text).for_each(|(to, from)| *to = *from);
}

impl Archive {
    /// An entry of a type, with its data.
    pub fn entry(&mut self, path: &str, kind: u8, bytes: &[u8]) {
        let mut header = [0u8; BLOCK];
        put(&mut header, 0, path.as_bytes());
        put(&mut header, 100, b"0000644\x000000000\x000000000\x00");
        put(&mut header, 124, format!("{:011o}\0", bytes.len()).as_bytes());
        put(&mut header, 136, b"00000000144\0");
        put(&mut header, 156, &[kind]);
        put(&mut header, 257, b"ustar\x0000");
        seal_header(&mut header);
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
    }

    /// Files of a name with a number each.
    #[must_use]
    pub fn files(mut self, count: usize) -> Self {
        (0..count).for_each(|i| self.entry(&format!("file{i}"), b'0', b""));
        self
    }

    /// An extended header with records.
    #[must_use]
    pub fn extended(mut self, kind: u8, records: &[(&str, String)]) -> Self {
        let each = records.iter().map(|(key, value)| {
            let rest = key.len() + value.len() + 3;
            // The length counts its own digits.
            let len = (rest + 1..).find(|n| n - n.to_string().len() == rest).unwrap_or(rest);
            format!("{len} {key}={value}\n")
        });
        self.entry("extended", kind, each.collect::<String>().as_bytes());
        self
    }

    /// A header for all entries, with a value of `bytes` bytes.
    #[must_use]
    pub fn global(key: &str, bytes: usize) -> Self {
        Self::default().extended(b'g', &[(key, "x".repeat(bytes))])
    }

    /// A file below a path of directories whose first one has a number.
    #[must_use]
    pub fn deep(self, number: usize, levels: usize) -> Self {
        let path = format!("{number}{}/file", "/d".repeat(levels.saturating_sub(1)));
        let mut archive = self.extended(b'x', &[("path", path)]);
        archive.entry("file", b'0', b"");
        archive
    }

    /// A file of parts that are a byte each.
    #[must_use]
    pub fn parts(self, count: usize) -> Self {
        let mut list = format!("{count}\n");
        (0..count).for_each(|i| list += &format!("{i}\n1\n"));
        list += &"\0".repeat(list.len().next_multiple_of(BLOCK) - list.len());
        let number = self.0.len();
        let keys = [("GNU.sparse.major", "1".to_owned()), ("GNU.sparse.realsize", count.to_string())];
        let mut archive = self.extended(b'x', &keys);
        archive.entry(&format!("parts{number}"), b'0', &[list.as_bytes(), &vec![b'p'; count]].concat());
        archive
    }

    /// The archive with its end.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 2 * BLOCK]);
        self.0
    }
}
