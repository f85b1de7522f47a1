//! Sources as they run: real files, sockets, brokers and terminals on this machine, and a clock that the test sets.

mod lines;
mod run;
mod telegrams;
