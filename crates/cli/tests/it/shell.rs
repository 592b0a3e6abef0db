//! `segno shell`: scripts, and a session on a pseudo terminal.
use super::{Scratch, output, refusal};
use rustix::process::{Pid, Signal, kill_process};
use segno::{Device, Volume};
use segno_testkit::f2fs_tools::assert_clean;
use std::fs::{create_dir, read_to_string, write};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Runs the shell with a script on standard input, in the directory of the image.
fn script(scratch: &Scratch, options: &[&str], text: &str) -> Output {
    let mut shell = Command::new(env!("CARGO_BIN_EXE_segno"));
    shell.arg("shell").args(options).arg(scratch.image()).current_dir(scratch.dir.path());
    let piped = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_script_works_on_one_open_volume_and_leaves_it_clean() {
    let scratch = Scratch::new();
    write(scratch.path("host"), "from the host").unwrap();
    create_dir(scratch.path("out")).unwrap();
    let done = script(
        &scratch,
        &[],
        "# made by hand\n\nmkdir -p a/b; cd a/b   # down\npwd\nput host\nput host /a/'two words'\nput *ost /a/third\n\
         cp_is_missing=\n",
    );
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(text(&done.stderr).contains("line 8 failed; nothing after it was done"), "{done:?}");
    assert_eq!(text(&done.stdout).lines().next(), Some("/a/b"));
    let done = script(
        &scratch,
        &[],
        "cd /a\nls\ncat t*s b/host\nlpwd\nlcd out\nlpwd\nget b/host .\nget -f . ../whole\nrm -r b t*\nls /\ncd ..\npwd\nsync\nput - /rest\n\
         echo this is no command\n",
    );
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let out = text(&done.stdout);
    assert!(out.starts_with("b\nthird\ntwo words\nfrom the hostfrom the host"), "{out}");
    assert!(out.contains("/out\n") && out.contains("\na\n/\n"), "{out}");
    assert_eq!(read_to_string(scratch.path("out/host")).unwrap(), "from the host");
    assert_eq!(read_to_string(scratch.path("whole/third")).unwrap(), "from the host");
    assert_eq!(output(&["cat", &scratch.image(), "/rest"]), "echo this is no command\n");
    assert_eq!(output(&["ls", "-R", &scratch.image()]), "a\nrest\n");
    assert_clean("after two scripts", &scratch.path("image"));
}

#[test]
fn the_first_error_ends_a_script_with_its_line_unless_it_is_kept_going() {
    let scratch = Scratch::new();
    let commands = "touch one\nrm none; touch two\ntouch three\n'\n";
    let said = script(&scratch, &[], commands);
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(
        text(&said.stderr),
        "segno: /none on the volume: no such file or directory\nsegno: line 2 failed; nothing after it was done\n"
    );
    assert_eq!(output(&["ls", &scratch.image()]), "one\n");
    let said = script(&scratch, &["-k"], commands);
    assert_eq!(said.status.code(), Some(1));
    let lines: Vec<&str> = text(&said.stderr).lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!((lines[1], lines[3]), ("segno: line 2 failed", "segno: line 4 failed"));
    assert_eq!(output(&["ls", &scratch.image()]), "one\nthree\ntwo\n");
    let end = output(&["shell", "-c", "touch four; exit; touch five\ntouch six", &scratch.image()]);
    assert_eq!((end.as_str(), output(&["ls", &scratch.image()]).as_str()), ("", "four\none\nthree\ntwo\n"));
}

#[test]
fn a_session_that_only_reads_changes_nothing() {
    let scratch = Scratch::new();
    let before = std::fs::read(scratch.image()).unwrap();
    for command in ["touch x", "mkdir d", "put /dev/null /x", "rm -f x", "setfattr -n user.x /"] {
        let (code, said) = refusal(&["shell", "-r", "-c", command, &scratch.image()]);
        assert!(code == 1 && said.contains("open for reading only, by -r"), "{command}: {said}");
    }
    output(&["shell", "-r", "-c", "ls; df; help; help ls", &scratch.image()]);
    assert!(std::fs::read(scratch.image()).unwrap() == before);
}

/// Any name from a volume is an argument, and a pattern removes only the names that it matches.
#[test]
fn patterns_match_hostile_names_as_names() {
    let scratch = Scratch::new();
    let volume = Volume::open(&Device::open(scratch.image()).unwrap()).unwrap();
    for name in ["-rf", "#3", "*", "a b", "esc\x1b[31m", "keep"] {
        volume.write(name, name).unwrap();
    }
    volume.create_dir("dir").unwrap();
    volume.close().unwrap();
    let image = scratch.image();
    assert_eq!(output(&["shell", "-c", "cat '*'", &image]), "*");
    assert_eq!(output(&["shell", "-c", "cat $'esc\\x1b[31m'", &image]), "esc\x1b[31m");
    assert_eq!(output(&["shell", "-c", "cat [#-]* a\\ b", &image]), "#3-rfa b");
    output(&["shell", "-c", "rm '*' [#-]* e*c*", &image]);
    assert_eq!(output(&["ls", &image]), "a b\ndir\nkeep\n");
    // A directory stays without -r, and the rest is removed.
    let (code, said) = refusal(&["shell", "-c", "rm *", &image]);
    assert!(code == 1 && said.contains("/dir on the volume is a directory"), "{said}");
    assert_eq!(output(&["ls", &image]), "dir\n");
    // Outside of the shell a name is a name.
    assert_eq!(refusal(&["rm", &image, "*"]).0, 1);
}

/// `get` drops the rights to the rest of the host in a separate thread; the next `get` has another target.
#[test]
fn each_get_of_a_session_writes_to_its_target_alone() {
    let scratch = Scratch::new();
    write(scratch.path("file"), "content").unwrap();
    for dir in ["one", "two", "elsewhere"] {
        create_dir(scratch.path(dir)).unwrap();
    }
    let commands =
        "mkdir d\nput file /d/file\nget d one\nget d two\nput one/d/file /again\nget again elsewhere\n";
    let done = script(&scratch, &[], commands);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    for copy in ["one/d/file", "two/d/file", "elsewhere/again"] {
        assert_eq!(read_to_string(scratch.path(copy)).unwrap(), "content", "{copy}");
    }
}

/// A shell on the pseudo terminal of script(1), whose process number is in the file `pid`.
struct Session {
    terminal: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Session {
    fn on(scratch: &Scratch) -> Self {
        let line =
            format!("stty rows 24 cols 80; echo $$ >pid; exec {} shell image", env!("CARGO_BIN_EXE_segno"));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).current_dir(scratch.dir.path()).env("TERM", "xterm");
        let mut terminal = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keys, mut output) = (terminal.stdin.take().unwrap(), terminal.stdout.take().unwrap());
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut session = Self { terminal, keys, screen, seen: String::new() };
        session.prompt("/");
        session
    }

    /// Waits for text on the screen, and drops the text before it.
    fn expect(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let more = self.screen.recv_timeout(Duration::from_secs(60));
            let more = more.unwrap_or_else(|e| panic!("{e}: no {text:?} in {:?}", self.seen));
            self.seen += &String::from_utf8(more).unwrap();
        }
    }

    /// Waits for the prompt of the next line: that of a line which is shown again has no bracketed paste before it.
    fn prompt(&mut self, dir: &str) {
        self.expect("\x1b[?2004h");
        self.expect(&format!("segno:{dir}> "));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).unwrap();
    }

    /// Ends by these keys.
    fn ends(mut self, keys: &str) {
        self.press(keys);
        assert_eq!(self.terminal.wait().unwrap().code(), Some(0));
    }
}

fn with_names(scratch: &Scratch) {
    let volume = Volume::open(&Device::open(scratch.image()).unwrap()).unwrap();
    volume.create_dir("directory").unwrap();
    volume.write("directory/only file", "the content").unwrap();
    volume.write("esc\x1b[31m", "of a hostile name").unwrap();
    volume.write("twin-one", "1").unwrap();
    volume.write("twin-two\x1b[5m", "2").unwrap();
    volume.close().unwrap();
}

#[test]
fn commands_options_and_names_are_completed_at_the_prompt() {
    let scratch = Scratch::new();
    with_names(&scratch);
    let mut session = Session::on(&scratch);
    session.press("getf\t");
    session.expect("getfattr ");
    session.press("--du\t");
    session.expect("--dump ");
    session.press("dir\t");
    session.expect("directory/");
    session.press("\x03");
    session.prompt("/");
    session.press("cat dir\ton\t");
    session.expect("'directory/only file'");
    session.press("\r");
    session.expect("the content");
    session.prompt("/");
    // A name with bytes that a terminal would interpret is quoted, and the quotation names the file.
    session.press("cat es\t");
    session.expect("$'esc\\x1b[31m'");
    session.press("\r");
    // The contents of a file are printed as they are.
    session.expect("of a hostile name");
    session.prompt("/");
    session.press("ls tw\t\t");
    session.expect("twin-two\\x1b[5m");
    assert!(!session.seen.contains("\x1b[5m"));
    session.press("\x03");
    session.prompt("/");
    session.press("cd dir\t\r");
    session.prompt("/directory");
    session.press("put ima\t");
    session.expect("put image ");
    session.press("\x03");
    session.prompt("/directory");
    session.ends("\x04");
    assert_clean("after a session", &scratch.path("image"));
}

#[test]
fn the_prompt_has_history_and_goes_on_after_errors_and_an_interrupted_line() {
    let scratch = Scratch::new();
    with_names(&scratch);
    let mut session = Session::on(&scratch);
    session.press("rm none\r");
    session.expect("/none on the volume: no such file or directory");
    session.prompt("/");
    session.press("rm -r directory\x03");
    session.prompt("/");
    session.press("\x1b[A");
    session.expect("rm none");
    session.press("\x03");
    session.prompt("/");
    session.ends("exit\r");
    assert!(output(&["ls", &scratch.image()]).starts_with("directory\n"));
    assert_clean("after exit", &scratch.path("image"));
}

#[test]
fn a_change_is_durable_when_the_next_prompt_appears() {
    let scratch = Scratch::new();
    let mut session = Session::on(&scratch);
    session.press("touch durable\r");
    session.prompt("/");
    let pid = read_to_string(scratch.path("pid")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    session.terminal.wait().unwrap();
    assert_eq!(output(&["ls", &scratch.image()]), "durable\n");
    assert_clean("after a kill", Path::new(&scratch.image()));
}

/// A signal ends a script after the command that runs, and the volume is closed.
#[test]
fn a_signal_ends_a_script_and_closes_the_volume() {
    let scratch = Scratch::new();
    let mut shell = Command::new(env!("CARGO_BIN_EXE_segno"));
    let piped = shell.args(["shell", &scratch.image()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"touch before\npwd\n").unwrap();
    let mut first = [0; 2];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    stdin.write_all(b"touch after; touch later\n").unwrap();
    drop(stdin);
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(text(&done.stderr).contains("interrupted"), "{done:?}");
    assert_eq!(output(&["ls", &scratch.image()]), "before\n");
    assert!(output(&["check", &scratch.image()]).contains("clean\n"));
    assert_clean("after a signal", &scratch.path("image"));
}
