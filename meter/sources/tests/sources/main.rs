//! Sources as they run: real files, sockets, brokers and terminals on this machine, and a clock that the test sets.

mod home;
mod http;
mod lines;
mod modbus;
mod mqtt;
mod run;
mod telegrams;
