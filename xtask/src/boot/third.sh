fsck_all
mount -a -t segno
verify /mnt/plain @PLAIN@
verify /mnt/journal @JOURNAL@
[ "$(cat /mnt/plain/last /mnt/journal/last | sort -u)" = "second boot" ]
umount /mnt/plain /mnt/journal
