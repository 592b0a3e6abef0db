//! Debian's kernel, taken apart: `vmlinux`, the modules a guest may need, a static busybox.
//!
//! Nothing is installed. The packages are downloaded with apt and unpacked with `dpkg -x`. The needed files
//! are kept below `target/kernel-twin/VERSION`; later runs need no network.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::paths::{run, target_dir, tool};

/// Loaded at boot: disks, the shared root, the output port, and f2fs with the crc32 that it requires at mount
/// time.
pub const BOOT_MODULES: [&str; 8] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "crc32_pclmul",
    "crc32_generic",
    "f2fs",
];

/// There for `modprobe` in a script, or for the kernel to load when it finds it needs them.
const EXTRA_MODULES: [&str; 15] = [
    "lz4",
    "lz4hc",
    "zstd",
    "quota_v1",
    "quota_v2",
    "crc32c_generic",
    "crc32c_intel",
    "null_blk",
    "loop",
    "fuse",
    "dm_flakey",
    "dm_log_writes",
    "dm_snapshot",
    "overlay",
    "virtiofs",
];

/// A kernel ready to boot.
pub struct Kernel {
    pub version: String,
    /// `vmlinux` (boots in half the time, qemu enters it directly), or the packed image where that is not to be had.
    pub image: PathBuf,
    /// Root that holds `lib/modules/VERSION`.
    pub modules: PathBuf,
    pub busybox: PathBuf,
}

impl Kernel {
    /// The kernel kept from an earlier run, or a freshly fetched one.
    pub fn obtain() -> Result<Self> {
        let cache = target_dir().join("kernel-twin");
        fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
        if let Some(kernel) = Self::newest_in(&cache)? {
            return Ok(kernel);
        }
        fetch(&cache).context("preparing the guest kernel")?;
        Self::newest_in(&cache)?.context("the guest kernel was unpacked but cannot be found again")
    }

    fn newest_in(cache: &Path) -> Result<Option<Self>> {
        let mut versions = Vec::new();
        for entry in fs::read_dir(cache)? {
            let path = entry?.path();
            if is_complete(&path) {
                versions.push(path);
            }
        }
        versions.sort();
        let Some(root) = versions.pop() else { return Ok(None) };
        let version = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Some(Self {
            version,
            image: root.join("kernel"),
            busybox: root.join("busybox"),
            modules: root.clone(),
        }))
    }
}

/// Whether a kept kernel has all modules that are wanted now.
fn is_complete(home: &Path) -> bool {
    let version = home.file_name().unwrap_or_default();
    let read = |list| fs::read_to_string(home.join("lib/modules").join(version).join(list));
    match (read("modules.dep"), read("modules.builtin")) {
        (Ok(dep), Ok(builtin)) => closure(&dep, &builtin).is_ok(),
        _ => false,
    }
}

/// Works in a private folder and renames at the end, so that an interrupted or a parallel run leaves no half kernel.
fn fetch(cache: &Path) -> Result<()> {
    let work = cache.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let result = unpack_into(&work).and_then(|(version, kept)| {
        let home = cache.join(version);
        if is_complete(&home) {
            return Ok(());
        }
        if home.is_dir() {
            fs::remove_dir_all(&home).with_context(|| format!("removing {}", home.display()))?;
        }
        fs::rename(&kept, &home).with_context(|| format!("moving the kernel to {}", home.display()))
    });
    fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))?;
    result
}

fn unpack_into(work: &Path) -> Result<(String, PathBuf)> {
    eprintln!("kernel-twin: fetching Debian's kernel (once)");
    let root = work.join("root");
    for package in [&kernel_package()?, "busybox-static"] {
        let file = download(work, package)?;
        run(Command::new(tool("dpkg", "dpkg")?).arg("-x").arg(file).arg(&root))?;
    }
    let version = only_entry(&root.join("lib/modules"))?;
    let depmod = tool("depmod", "kmod")?;
    run(Command::new(&depmod).arg("-b").arg(&root).arg(&version))?;

    let kept = work.join("kept");
    keep_modules(&root, &kept, &version)?;
    run(Command::new(&depmod).arg("-b").arg(&kept).arg(&version))?;
    let busybox = ["usr/bin/busybox", "bin/busybox"].map(|path| root.join(path));
    let busybox = busybox.iter().find(|path| path.is_file()).context("busybox-static holds no busybox")?;
    fs::copy(busybox, kept.join("busybox"))?;
    let packed = root.join(format!("boot/vmlinuz-{version}"));
    unpack_kernel(&packed, &kept.join("kernel"))?;
    Ok((version, kept))
}

/// `linux-image-amd64` is empty and depends on the real package.
fn kernel_package() -> Result<String> {
    let apt_cache = tool("apt-cache", "apt")?;
    let shown = run(Command::new(apt_cache).args(["show", "--no-all-versions", "linux-image-amd64"]))
        .context("apt knows no linux-image-amd64; is this Debian, and was `apt-get update` run?")?;
    shown
        .lines()
        .filter_map(|line| line.strip_prefix("Depends:"))
        .flat_map(|list| list.split(','))
        .filter_map(|dependency| dependency.split_whitespace().next())
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
        .context("linux-image-amd64 depends on no linux-image-*")
}

fn download(work: &Path, package: &str) -> Result<PathBuf> {
    let dir = work.join(format!("deb-{package}"));
    fs::create_dir_all(&dir)?;
    run(Command::new(tool("apt-get", "apt")?).args(["download", package]).current_dir(&dir))
        .with_context(|| format!("downloading {package}; `apt-get update` may be due"))?;
    Ok(dir.join(only_entry(&dir)?))
}

fn only_entry(dir: &Path) -> Result<String> {
    let mut names = fs::read_dir(dir)
        .with_context(|| format!("reading {}", dir.display()))?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name?),
        _ => bail!("{} should hold exactly one entry", dir.display()),
    }
}

/// Copies the wanted modules and all they depend on; the whole set would be 350 MB.
fn keep_modules(root: &Path, kept: &Path, version: &str) -> Result<()> {
    let from = root.join("lib/modules").join(version);
    let to = kept.join("lib/modules").join(version);
    let dep = fs::read_to_string(from.join("modules.dep"))?;
    let builtin = fs::read_to_string(from.join("modules.builtin"))?;
    for file in closure(&dep, &builtin)? {
        let target = to.join(&file);
        let folder = target.parent().context("module path without a folder")?;
        fs::create_dir_all(folder)?;
        fs::copy(from.join(&file), &target).with_context(|| format!("copying module {file}"))?;
    }
    for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        fs::copy(from.join(list), to.join(list))?;
    }
    Ok(())
}

/// Files of the wanted modules, by the lines `FILE: DEPENDENCY...` of modules.dep.
fn closure(dep: &str, builtin: &str) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for wanted in BOOT_MODULES.iter().chain(&EXTRA_MODULES) {
        let line =
            dep.lines().find(|line| line.split_once(':').is_some_and(|(file, _)| stem(file) == *wanted));
        match line.and_then(|line| line.split_once(':')) {
            Some((file, needs)) => {
                files.insert(file.to_owned());
                files.extend(needs.split_whitespace().map(str::to_owned));
            }
            None if builtin.lines().any(|file| stem(file) == *wanted) => {}
            None => bail!("the kernel package holds no module {wanted}"),
        }
    }
    Ok(files)
}

/// `kernel/drivers/md/dm-flakey.ko.xz` -> `dm_flakey`; the kernel takes `-` and `_` for the same.
fn stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

/// Unpacks `vmlinux` out of a bzImage; an unknown packing is kept packed, which only boots slower.
fn unpack_kernel(packed: &Path, kernel: &Path) -> Result<()> {
    let image = fs::read(packed).with_context(|| format!("reading {}", packed.display()))?;
    match unpacked(&image, kernel) {
        Ok(()) => Ok(()),
        Err(why) => {
            eprintln!("kernel-twin: keeping the packed kernel: {why:#}");
            fs::write(kernel, image).with_context(|| format!("writing {}", kernel.display()))
        }
    }
}

fn unpacked(image: &[u8], kernel: &Path) -> Result<()> {
    let payload = payload(image).context("no payload found in the kernel image")?;
    let mut command = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            // The length of the unpacked kernel follows the stream; without this xz takes it for garbage.
            let mut xz = Command::new(tool("xz", "xz-utils")?);
            xz.args(["-dc", "--single-stream"]);
            xz
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut zstd = Command::new(tool("zstd", "zstd")?);
            zstd.arg("-dc");
            zstd
        }
        _ => bail!("unknown compression"),
    };
    let file = kernel.with_extension("packed");
    fs::write(&file, payload)?;
    let status = command.stdin(fs::File::open(&file)?).stdout(fs::File::create(kernel)?).status();
    fs::remove_file(&file)?;
    let elf = fs::read(kernel)?.starts_with(b"\x7fELF");
    if !status?.success() || !elf {
        bail!("{command:?} gave no ELF file");
    }
    Ok(())
}

/// The compressed kernel inside a bzImage (Linux x86 boot protocol, `payload_offset` and `payload_length`).
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| {
        let bytes = image.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let setup_sectors = usize::from(*image.get(0x1f1)?).max(1);
    let start = (setup_sectors + 1).checked_mul(512)?.checked_add(word(0x248)?)?;
    image.get(start..start.checked_add(word(0x24c)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names_ignore_folder_suffix_and_dash() {
        assert_eq!(stem("kernel/drivers/md/dm-flakey.ko"), "dm_flakey");
        assert_eq!(stem("kernel/fs/f2fs/f2fs.ko.xz"), "f2fs");
    }

    #[test]
    fn payload_of_a_made_up_image() {
        let mut image = vec![0u8; 2048];
        image[0x1f1] = 1;
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&4u32.to_le_bytes());
        image[1040..1044].copy_from_slice(b"core");
        assert_eq!(payload(&image), Some(&b"core"[..]));
        assert_eq!(payload(&image[..1042]), None);
    }

    #[test]
    fn a_missing_module_is_named() {
        let error = closure("kernel/a.ko:\n", "").unwrap_err();
        assert!(error.to_string().contains("virtio_pci"), "{error}");
    }
}
