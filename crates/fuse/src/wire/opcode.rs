//! Operation codes and the size of the structure of each.
use super::messages::*;

macro_rules! opcodes {
    ($($name:ident = $code:literal: $arg:ty),* $(,)?) => {
        /// The operation of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Opcode { $($name = $code),* }

        impl Opcode {
            /// The operation of a code; `None` if it is unknown.
            pub fn from_wire(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// Size of the structure between the header and names or data.
            pub fn struct_len(self) -> usize {
                match self { $(Self::$name => size_of::<$arg>()),* }
            }
        }
    };
}

// Name, code, and the structure after the header.
opcodes! {
    Lookup = 1: (), Forget = 2: ForgetIn, GetAttr = 3: GetAttrIn, SetAttr = 4: SetAttrIn, ReadLink = 5: (),
    Symlink = 6: (), Mknod = 8: MknodIn, Mkdir = 9: MkdirIn, Unlink = 10: (), Rmdir = 11: (),
    Rename = 12: RenameIn, Link = 13: LinkIn, Open = 14: OpenIn, Read = 15: ReadIn, Write = 16: WriteIn,
    StatFs = 17: (), Release = 18: ReleaseIn, Fsync = 20: FsyncIn, SetXattr = 21: SetXattrIn,
    GetXattr = 22: GetXattrIn, ListXattr = 23: GetXattrIn, RemoveXattr = 24: (), Flush = 25: FlushIn,
    Init = 26: InitIn, OpenDir = 27: OpenIn, ReadDir = 28: ReadIn, ReleaseDir = 29: ReleaseIn,
    FsyncDir = 30: FsyncIn, Access = 34: AccessIn, Create = 35: CreateIn, Interrupt = 36: InterruptIn,
    Destroy = 38: (), Ioctl = 39: IoctlIn, BatchForget = 42: BatchForgetIn, Fallocate = 43: FallocateIn,
    ReadDirPlus = 44: ReadIn, Rename2 = 45: Rename2In, Lseek = 46: LseekIn,
    CopyFileRange = 47: CopyFileRangeIn, SyncFs = 50: SyncFsIn, TmpFile = 51: CreateIn, Statx = 52: StatxIn,
    CopyFileRange64 = 53: CopyFileRangeIn,
}

impl Opcode {
    /// Whether the operation is served after a shutdown: those needed to inspect the mount and to unmount it.
    pub fn works_shut_down(self) -> bool {
        matches!(
            self,
            Self::Access
                | Self::BatchForget
                | Self::Destroy
                | Self::Flush
                | Self::Forget
                | Self::GetAttr
                | Self::GetXattr
                | Self::Interrupt
                | Self::Open
                | Self::OpenDir
                | Self::Release
                | Self::ReleaseDir
                | Self::StatFs
                | Self::Statx
        )
    }

    /// Whether it waits for the device, or for another thread that does.
    pub fn is_sync(self) -> bool {
        matches!(self, Self::Fsync | Self::FsyncDir | Self::SyncFs)
    }

    /// Whether the client waits for a reply.
    pub fn has_reply(self) -> bool {
        !matches!(self, Self::Forget | Self::BatchForget | Self::Interrupt)
    }
}
