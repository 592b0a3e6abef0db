//! Calls of a device that a wrapper leaves to the device inside it.

/// Inside `impl BlockDevice`: the calls that go to a field unchanged, by name. `forward!(inner: block_count, read, flush);`
#[macro_export]
macro_rules! forward {
    ($to:tt: $($call:ident),+) => {
        $($crate::forward!(@$call $to);)+
    };
    (@block_count $to:tt) => {
        fn block_count(&self) -> u64 {
            self.$to.block_count()
        }
    };
    (@read $to:tt) => {
        fn read(&self, addr: u64, into: &mut [::segno_format::Block]) -> ::std::io::Result<()> {
            self.$to.read(addr, into)
        }
    };
    (@write $to:tt) => {
        fn write(&self, addr: u64, blocks: &[&::segno_format::Block]) -> ::std::io::Result<()> {
            self.$to.write(addr, blocks)
        }
    };
    (@write_fua $to:tt) => {
        fn write_fua(&self, addr: u64, blocks: &[&::segno_format::Block]) -> ::std::io::Result<()> {
            self.$to.write_fua(addr, blocks)
        }
    };
    (@flush $to:tt) => {
        fn flush(&self) -> ::std::io::Result<()> {
            self.$to.flush()
        }
    };
    (@discard $to:tt) => {
        fn discard(&self, addr: u64, count: u64) -> ::std::io::Result<()> {
            self.$to.discard(addr, count)
        }
    };
    (@read_only $to:tt) => {
        fn read_only(&self) -> bool {
            self.$to.read_only()
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::blocks::compare_with_array;
    use segno_device::{BlockDevice, MemDevice};

    struct Wrapper(MemDevice);

    impl BlockDevice for Wrapper {
        crate::forward!(0: block_count, read, write, write_fua, flush, discard, read_only);
    }

    #[test]
    fn passes_everything_on() {
        compare_with_array(
            &Wrapper(MemDevice::new(20)),
            &[(0, 1, 9, 1), (1, 5, 9, 2), (2, 3, 4, 0), (3, 0, 0, 0), (0, 19, 2, 1)],
        );
    }
}
