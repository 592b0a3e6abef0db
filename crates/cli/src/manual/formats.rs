//! segno(5).
use super::facts::BUGS;
use super::roff::{listed, roff, title};
use crate::mount::options::pages;

/// segno(5): the volumes and the mount options, in the language of man(7).
#[must_use]
pub fn file_formats(date: &str) -> String {
    let mut out = title("segno", 5, date, "File Formats");
    out += ".SH NAME\nsegno \\- volumes in the F2FS format and their mount options\n\
         .SH DESCRIPTION\n\
         A volume of\n.BR segno (1)\nhas the on\\-disk format of the F2FS of Linux. Either program mounts volumes of the other.\n\
         A metadata journal, if there is one, is behind the end of the volume or in a file of its own; Linux does not read it.\n\
         .PP\nIn\n.BR fstab (5)\nthe type is\n.IR segno :\n.PP\n.EX\n\
         /srv/disk.img  /srv/data  segno  nofail,cache=512M  0  0\n.EE\n";
    for section in pages::sections() {
        out += &format!(".SH {}\n", section.title.to_uppercase());
        out += &listed(&section.entries);
    }
    out += ".SH FILES\n.TP\n\\fB/etc/fstab\\fR\nlines of type segno\n";
    out += &format!(".SH BUGS\n{}\n", roff(BUGS));
    out + ".SH SEE ALSO\n.BR segno (1),\n.BR segno\\-mount (1),\n.BR mount.segno (8),\n.BR mount (8),\n.BR fstab (5)\n"
}
