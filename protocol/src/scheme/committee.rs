//! The committee scheme: members speak once a slot, and enough of K *holders* open the sum together.
//!
//! Every member deals one number to each holder. Through the first q of them goes a polynomial of degree below q, whose
//! value at 0 hides the member's reading; what the other holders lack to lie on it the member publishes as
//! *corrections*. Polynomials add up like their values: when each holder adds what it was dealt, the sums lie on the sum
//! of the polynomials, and any q of them give its value at 0, which hides the sum of the readings and nothing else.
//!
//! - [`field`]: the numbers, integers modulo 2^61 - 1;
//! - [`dealing`]: a member's polynomial, without ever writing it down;
//! - [`decoding`]: its sum's value at 0 from the holders' answers, although some are missing or wrong.

pub mod dealing;
pub mod decoding;
pub mod field;
