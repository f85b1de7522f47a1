//! A serial port, or any terminal: opened raw, with the speed and framing of a meter.

use std::fs::File;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{Mode, OFlags};
use rustix::termios::{ControlModes, InputModes, OptionalActions, QueueSelector};
use rustix::{fs, termios};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

/// Speed and framing of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) baud: u32,
    pub(crate) framing: Framing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Eight bits, no parity.
    EightNone,
    /// Eight bits, even parity.
    EightEven,
    /// Seven bits, even parity.
    SevenEven,
}

/// Tokio's pipes are what reads and writes any file that can be polled; a terminal is one.
#[derive(Debug)]
pub(crate) struct SerialPort {
    reader: pipe::Receiver,
    writer: pipe::Sender,
}

impl SerialPort {
    pub(crate) fn open(path: &Path, line: Line) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let port = fs::open(path, flags, Mode::empty())?;
        let mut settings = termios::tcgetattr(&port)?;
        settings.make_raw();
        settings.set_speed(line.baud)?;
        let modes = &mut settings.control_modes;
        modes.remove(ControlModes::CSIZE | ControlModes::PARENB | ControlModes::PARODD | ControlModes::CSTOPB);
        modes.remove(ControlModes::CRTSCTS);
        modes.insert(ControlModes::CREAD | ControlModes::CLOCAL);
        match line.framing {
            Framing::EightNone => modes.insert(ControlModes::CS8),
            Framing::EightEven => modes.insert(ControlModes::CS8 | ControlModes::PARENB),
            Framing::SevenEven => {
                modes.insert(ControlModes::CS7 | ControlModes::PARENB);
                settings.input_modes.insert(InputModes::ISTRIP);
            }
        }
        termios::tcsetattr(&port, OptionalActions::Now, &settings)?;
        // What came at another speed is noise.
        termios::tcflush(&port, QueueSelector::IFlush)?;
        let port = File::from(port);
        Ok(Self {
            writer: pipe::Sender::from_file_unchecked(port.try_clone()?)?,
            reader: pipe::Receiver::from_file_unchecked(port)?,
        })
    }
}

impl AsyncRead for SerialPort {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, buffer)
    }
}

impl AsyncWrite for SerialPort {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}
