use dream_homes::home::*;
use dream_homes::slots::SlotLength;
use dream_homes::street::{self, all_cores, in_parallel};
use std::io::Write;
// gen kind seed homes days first -> data/kind-seed.bin
pub fn run(a: &[String]) {
    let (kind, seed, count, days, first): (&str, u64, usize, usize, u32) =
        (&a[0], a[1].parse().unwrap(), a[2].parse().unwrap(), a[3].parse().unwrap(), a[4].parse().unwrap());
    let heats = |home: &Home| home.owned().iter().any(|d| d.name() == "storage_heater");
    let many = (count * if kind == "electric-heat" { 60 } else { 2 }) as u32;
    let usual = || street::usual_homes(seed, many, ActivityModel::Crest).into_iter();
    let homes: Vec<Home> = match kind {
        "flat" => street::homes(seed, many, Residents::between(1, 2).unwrap(), ActivityModel::Crest).into_iter().filter(|h| !heats(h)).take(count).collect(),
        "house" => usual().filter(|h| !heats(h)).take(count).collect(),
        "electric-heat" => usual().filter(heats).take(count).collect(),
        "pv" => usual().filter(|h| !heats(h)).map(|h| h.with_pv("1".parse().unwrap())).take(count).collect(),
        _ => panic!(),
    };
    assert_eq!(homes.len(), count);
    let slot = SlotLength::new(600).unwrap();
    let first = Calendar::Year.day(first);
    let loads = in_parallel(all_cores(), &homes, |home| {
        let mut v: Vec<i16> = Vec::with_capacity(days * 144);
        if a.len() > 5 { let step: u32 = a[5].parse().unwrap(); let f: u32 = a[4].parse().unwrap(); for i in 0..days as u32 { v.extend(slot.means(&home.day(Calendar::Year.day(f + i * step)).total()).iter().map(|w| *w as i16)); } }
        else { for day in home.days(first).take(days) { v.extend(slot.means(&day.total()).iter().map(|w| *w as i16)); } }
        v
    });
    let path = format!("data/{kind}-{seed}.bin");
    let mut f = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    f.write_all(&(count as u32).to_le_bytes()).unwrap();
    f.write_all(&(days as u32).to_le_bytes()).unwrap();
    for v in loads { for w in v { f.write_all(&w.to_le_bytes()).unwrap(); } }
}
pub struct Data { pub homes: usize, pub days: usize, pub w: Vec<i16> }
pub fn load(kind: &str, seed: u64) -> Data {
    let b = std::fs::read(format!("data/{kind}-{seed}.bin")).unwrap();
    let n = |i: usize| u32::from_le_bytes(b[i..i + 4].try_into().unwrap()) as usize;
    let w = b[8..].chunks_exact(2).map(|c| i16::from_le_bytes([c[0], c[1]])).collect();
    Data { homes: n(0), days: n(4), w }
}
impl Data { pub fn home(&self, h: usize) -> &[i16] { &self.w[h * self.days * 144..(h + 1) * self.days * 144] } }
// account of squares with pacing 4/r
pub fn told(day: &[i16], lo: f64, hi: f64, rms: f64) -> Vec<f64> {
    let n = day.len();
    let mut left = rms * rms * n as f64;
    day.iter().enumerate().map(|(k, w)| {
        let x = f64::from(*w).clamp(lo, hi);
        let r = (n - k) as f64;
        let a = left.min(4.0 * left / r);
        let most = a.sqrt().floor();
        let m = x.clamp(-most, most);
        left -= m * m;
        m
    }).collect()
}
