#!/bin/bash
# Builds user-mode Linux of Debian's linux-source into the folder $1: F2FS with all features, ext4, zoned null_blk, no modules.
set -euo pipefail
home=$(realpath "$1")
source=linux-source-6.1
packages="bc bison flex gcc libelf-dev make xz-utils"

[ "$(id -u)" -eq 0 ] || {
    echo "as root: apt-get install $packages $source, then run this again as root" >&2
    exit 1
}
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages "$source" > /dev/null
mkdir -p "$home/source"
tar -C "$home/source" --strip-components=1 -xf "/usr/src/$source.tar.xz"
cd "$home/source"
make -s ARCH=um x86_64_defconfig
options="
    F2FS_FS F2FS_STAT_FS F2FS_CHECK_FS F2FS_FS_XATTR F2FS_FS_POSIX_ACL F2FS_FS_SECURITY
    F2FS_FS_COMPRESSION F2FS_FS_LZO F2FS_FS_LZORLE F2FS_FS_LZ4 F2FS_FS_LZ4HC F2FS_FS_ZSTD
    UNICODE QUOTA QFMT_V2 FS_ENCRYPTION FS_VERITY
    CRYPTO_CRC32 CRYPTO_CRC32C CRYPTO_SHA256 CRYPTO_SHA512 CRYPTO_HMAC CRYPTO_AES CRYPTO_XTS CRYPTO_CTS CRYPTO_CBC CRYPTO_ECB
    EXT4_FS EXT4_FS_POSIX_ACL TMPFS TMPFS_XATTR FUSE_FS HOSTFS CONFIGFS_FS DEBUG_FS DEVTMPFS
    BLK_DEV_LOOP BLK_DEV_ZONED BLK_DEV_NULL_BLK MAGIC_SYSRQ"
for option in $options; do
    ./scripts/config --enable "$option"
done
make -s ARCH=um olddefconfig
make -s ARCH=um -j"$(nproc)" linux
# Under its final name it is whole.
cp linux "$home/linux.new"
mv "$home/linux.new" "$home/linux"
rm -rf "$home/source"
