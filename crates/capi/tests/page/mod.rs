//! segno.h as a manual page of section 3.

const DATE: &str = "2026-11-28";

/// A declaration with the comment above it.
struct Declared {
    comment: String,
    code: String,
}

impl Declared {
    /// Of a function.
    fn name(&self) -> Option<&str> {
        let (before, _) = self.code.split_once('(').filter(|_| !self.code.starts_with("typedef"))?;
        before.rsplit([' ', '*']).next()
    }
}

/// Reads the header that cbindgen makes: comments begin with `//`, declarations end with `;`.
fn declarations(header: &str) -> Vec<Declared> {
    let mut all = Vec::new();
    let (mut comment, mut code) = (String::new(), String::new());
    for line in header.lines() {
        match line.strip_prefix("// ") {
            Some(text) => comment = format!("{comment}{text}\n"),
            None if line.starts_with("#define SEGNO_") && line != "#define SEGNO_H" => {
                all.push(Declared { comment: std::mem::take(&mut comment), code: line.to_owned() });
            }
            None if line.is_empty() || line.starts_with('#') || line.starts_with("extern") => {}
            None => code = format!("{code}{line}\n"),
        }
        if code.ends_with(";\n") && code.matches('{').count() == code.matches('}').count() {
            all.push(Declared { comment: std::mem::take(&mut comment), code: std::mem::take(&mut code) });
        }
    }
    all
}

/// Text of a paragraph or of an example.
fn escaped(text: &str) -> String {
    let line = |line: &str| {
        let mut bold = false;
        let escaped: String = line
            .chars()
            .map(|c| match c {
                '\\' => "\\e".to_owned(),
                '-' => "\\-".to_owned(),
                '`' => {
                    bold = !bold;
                    if bold { "\\fB".into() } else { "\\fR".into() }
                }
                c => c.into(),
            })
            .collect();
        let guard = if escaped.starts_with(['.', '\'']) { "\\&" } else { "" };
        format!("{guard}{escaped}\n")
    };
    text.lines().map(line).collect()
}

/// Declarations, each with its comment below it.
fn described<'a>(all: impl Iterator<Item = &'a Declared>) -> String {
    let one = |d: &Declared| {
        format!(".EX\n{}.EE\n.RS 4\n{}.RE\n", escaped(&d.code.replace('`', "")), escaped(&d.comment))
    };
    all.map(one).collect::<Vec<_>>().join(".PP\n")
}

/// The page.
pub fn of_header(header: &str) -> String {
    let (about, rest) = header.split_once(" */\n").unwrap();
    let all = declarations(rest);
    let functions = || all.iter().filter(|d| d.name().is_some());
    let names: Vec<_> = functions().filter_map(Declared::name).collect();
    // The second paragraph describes how the header is made.
    let (title, description) = about.split_once("\n *\n").unwrap();
    let (_, description) = description.split_once("\n *\n").unwrap();
    let title = title.trim_start_matches("/* segno.h: ").trim_end_matches('.');
    let mut page = format!(".TH SEGNO 3 {DATE} segno \"Library Functions\"\n.SH NAME\n");
    page += &format!("segno, {} \\- {}", names.join(", "), escaped(title));
    page += ".SH SYNOPSIS\n.EX\n#include <segno.h>\n\ncc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs segno)\n.EE\n";
    page += ".SH DESCRIPTION\n";
    let text: String =
        description.lines().map(|l| l.trim_start_matches(" *").trim_start().to_owned() + "\n").collect();
    page += &escaped(text.trim_end()).replace("\n\n", "\n.PP\n");
    page += &format!(".SH FUNCTIONS\n{}", described(functions()));
    let types = all.iter().filter(|d| d.code.starts_with("typedef"));
    page += &format!(".SH TYPES\n{}", described(types));
    page += ".SH CONSTANTS\n";
    for declared in all.iter().filter(|d| d.code.starts_with("#define")) {
        let name = declared.code.trim_start_matches("#define ");
        page += &format!(".TP\n.B {}\n{}", name, escaped(&declared.comment));
    }
    page + ".SH SEE ALSO\n.BR segno (1),\n.BR f2fs (5)\n"
}
