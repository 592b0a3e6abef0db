//! Operation codes and the size of the structure of each.
use super::messages as m;

macro_rules! opcodes {
    ($($name:ident = $code:literal),* $(,)?) => {
        /// The operation of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum Opcode { $($name = $code),* }

        impl Opcode {
            /// The operation of a code; `None` if it is unknown.
            pub(crate) fn from_wire(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
        }
    };
}

opcodes! {
    Lookup = 1, Forget = 2, GetAttr = 3, SetAttr = 4, ReadLink = 5, Symlink = 6, Mknod = 8, Mkdir = 9, Unlink = 10,
    Rmdir = 11, Rename = 12, Link = 13, Open = 14, Read = 15, Write = 16, StatFs = 17, Release = 18, Fsync = 20,
    SetXattr = 21, GetXattr = 22, ListXattr = 23, RemoveXattr = 24, Flush = 25, Init = 26, OpenDir = 27, ReadDir = 28,
    ReleaseDir = 29, FsyncDir = 30, Access = 34, Create = 35, Interrupt = 36, Destroy = 38, Ioctl = 39,
    BatchForget = 42, Fallocate = 43, ReadDirPlus = 44, Rename2 = 45, Lseek = 46, CopyFileRange = 47, SyncFs = 50,
    TmpFile = 51, Statx = 52, CopyFileRange64 = 53,
}

/// The kind of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum NotifyCode {
    InvalInode = 2,
}

impl Opcode {
    /// Whether the operation is served after a shutdown: those needed to inspect the mount and to unmount it.
    pub(crate) fn works_shut_down(self) -> bool {
        use Opcode::{
            Access, BatchForget, Destroy, Flush, Forget, GetAttr, GetXattr, Interrupt, Open, OpenDir,
            Release, ReleaseDir, StatFs, Statx,
        };
        matches!(
            self,
            Access
                | BatchForget
                | Destroy
                | Flush
                | Forget
                | GetAttr
                | GetXattr
                | Interrupt
                | Open
                | OpenDir
                | Release
                | ReleaseDir
                | StatFs
                | Statx
        )
    }

    /// Whether it waits for the device, or for another thread that does.
    pub(crate) fn is_sync(self) -> bool {
        matches!(self, Self::Fsync | Self::FsyncDir | Self::SyncFs)
    }

    /// Whether the client waits for a reply.
    pub(crate) fn has_reply(self) -> bool {
        !matches!(self, Self::Forget | Self::BatchForget | Self::Interrupt)
    }

    /// Size of the structure between the header and names or data.
    pub(crate) fn struct_len(self) -> usize {
        match self {
            Self::Lookup
            | Self::Unlink
            | Self::Rmdir
            | Self::ReadLink
            | Self::Symlink
            | Self::StatFs
            | Self::RemoveXattr
            | Self::Destroy => 0,
            Self::Forget => size_of::<m::ForgetIn>(),
            Self::BatchForget => size_of::<m::BatchForgetIn>(),
            Self::GetAttr => size_of::<m::GetAttrIn>(),
            Self::SetAttr => size_of::<m::SetAttrIn>(),
            Self::Mknod => size_of::<m::MknodIn>(),
            Self::Mkdir => size_of::<m::MkdirIn>(),
            Self::Rename => size_of::<m::RenameIn>(),
            Self::Rename2 => size_of::<m::Rename2In>(),
            Self::Link => size_of::<m::LinkIn>(),
            Self::Open | Self::OpenDir => size_of::<m::OpenIn>(),
            Self::Read | Self::ReadDir | Self::ReadDirPlus => size_of::<m::ReadIn>(),
            Self::Write => size_of::<m::WriteIn>(),
            Self::Release | Self::ReleaseDir => size_of::<m::ReleaseIn>(),
            Self::Fsync | Self::FsyncDir => size_of::<m::FsyncIn>(),
            Self::SetXattr => size_of::<m::SetXattrIn>(),
            Self::GetXattr | Self::ListXattr => size_of::<m::GetXattrIn>(),
            Self::Flush => size_of::<m::FlushIn>(),
            Self::Init => size_of::<m::InitIn>(),
            Self::Access => size_of::<m::AccessIn>(),
            Self::Create | Self::TmpFile => size_of::<m::CreateIn>(),
            Self::Interrupt => size_of::<m::InterruptIn>(),
            Self::Ioctl => size_of::<m::IoctlIn>(),
            Self::Fallocate => size_of::<m::FallocateIn>(),
            Self::Lseek => size_of::<m::LseekIn>(),
            Self::CopyFileRange | Self::CopyFileRange64 => size_of::<m::CopyFileRangeIn>(),
            Self::SyncFs => size_of::<m::SyncFsIn>(),
            Self::Statx => size_of::<m::StatxIn>(),
        }
    }
}
