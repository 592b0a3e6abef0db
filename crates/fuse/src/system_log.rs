//! The system's log, as syslog(3) reaches it: a datagram for each line.
use std::io;
use std::os::unix::net::UnixDatagram;

const SOCKET: &str = "/dev/log";
/// Facility daemon.
const DAEMON: u8 = 3 << 3;

/// How urgent a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Requires an action.
    Error = 3,
    /// For information.
    Info = 6,
}

/// An open connection. It is also used after rights were dropped.
#[derive(Debug)]
pub struct SystemLog(UnixDatagram);

impl SystemLog {
    /// Connects to the log of this machine, if it has one.
    pub fn open() -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(SOCKET)?;
        // A log that accepts no lines must not block the caller.
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Writes a line.
    pub fn line(&self, severity: Severity, text: &str) {
        let line = record(severity, std::process::id(), text);
        // There is no other place to report that to.
        let _lost = self.0.send(line.as_bytes());
    }
}

fn record(severity: Severity, pid: u32, text: &str) -> String {
    format!("<{}>segno[{pid}]: {text}", DAEMON | severity as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_facility_severity_and_process() {
        assert_eq!(record(Severity::Error, 7, "it died"), "<27>segno[7]: it died");
        assert_eq!(record(Severity::Info, 7, "mounted"), "<30>segno[7]: mounted");
    }
}
