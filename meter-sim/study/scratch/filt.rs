use crate::gen_::*;
use dream_filter::*;
use rand_chacha::{ChaCha8Rng, rand_core::{SeedableRng, Rng as _}};
pub struct Rng(pub ChaCha8Rng);
impl Rng {
    pub fn new(s: u64) -> Self { Self(ChaCha8Rng::seed_from_u64(s)) }
    pub fn u(&mut self) -> f64 { ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64 }
    pub fn exp(&mut self) -> f64 { -self.u().ln() }
    pub fn gamma(&mut self, shape: f64) -> f64 {
        let first = self.exp(); let rest = shape - 1.0;
        if rest <= 0.0 { return first; }
        loop { let (x, y) = (self.u().powf(1.0 / rest), self.u().powf(1.0 / (1.0 - rest)));
            if x + y <= 1.0 { return first + self.exp() * x / (x + y); } }
    }
    pub fn noise(&mut self, lambda: f64, shape: f64) -> f64 { lambda * (self.gamma(shape) - self.gamma(shape)) }
    pub fn pick(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut v: Vec<usize> = (0..n).collect();
        for i in 0..k { let j = i + (self.0.next_u64() as usize) % (n - i); v.swap(i, j); }
        v.truncate(k); v
    }
}
// filt kind N lambda hi rms clusters days [lo]
pub fn run(a: &[String]) {
    let kind = a[0].as_str();
    let p = |i: usize| a[i].parse::<f64>().unwrap();
    let (n, lambda, hi, rms, clusters, days) = (p(1) as usize, p(2), p(3), p(4), p(5) as usize, p(6) as usize);
    let lo = a.get(7).map_or(0.0, |x| x.parse().unwrap());
    let shape = 1.0 / 0.8;
    for seed in [1u64, 2] {
        let data = load(kind, seed);
        let mut rng = Rng::new(seed * 1000 + n as u64);
        let mut per_day = vec![[0.0f64; 6]; days]; // raw err, filt err, held truth, held told, slots, band
        let changes = [0.55, 0.7, 1.4, 2.0];
        let mut hours = vec![vec![[0.0f64; 2]; 24]; changes.len()];
        let mut seven = [0.0f64; 8];
        let (mut foresee, mut late) = ([0.0f64;3], [0.0f64;3]);
        for _ in 0..clusters {
            let members = rng.pick(data.homes, n);
            let (mut truth, mut t) = (vec![0.0; days * 144], vec![0.0; days * 144]);
            for h in members {
                let w = data.home(h);
                for d in 0..days {
                    let day = &w[d * 144..(d + 1) * 144];
                    for (k, m) in told(day, lo, hi, rms).into_iter().enumerate() { t[d * 144 + k] += m; truth[d * 144 + k] += f64::from(day[k]); }
                }
            }
            let mut filter = Filter::default();
            let mut waiting: Vec<(u64, f64)> = vec![];
            for k in 0..days * 144 {
                let d = k / 144;
                let start_millis = 20_003 * 86_400_000 + k as u64 * 600_000; let end_millis = start_millis + 600_000;
                let noise = rng.noise(lambda, shape).round();
                let rel = |watts: f64| Release { start_millis, end_millis, local: LocalTime::utc(start_millis + 300_000), watts, variance: 2.0 * shape * lambda * lambda, responders: n as u16, members: n as u16 };
                if d == 14 && k % 36 == 0 {
                    for (ci, by) in changes.iter().enumerate() {
                        let mut f = filter.clone();
                        let mut r2 = Rng::new(k as u64 + ci as u64 * 7 + rng.0.next_u64());
                        for q in 0..144.min(days * 144 - k) {
                            let (s, e) = (start_millis + q as u64 * 600_000, end_millis + q as u64 * 600_000);
                            let nz = r2.noise(lambda, shape).round();
                            let tr = by * t[k + q];
                            let out = f.observe(&Release { start_millis: s, end_millis: e, local: LocalTime::utc(s + 300_000), watts: tr + nz, ..rel(0.0) }).unwrap();
                            hours[ci][q / 6][0] += nz.abs(); hours[ci][q / 6][1] += (out.watts - tr).abs();
                        }
                    }
                }
                if d >= 7 { let f = filter.predict(&Slot { start_millis, end_millis, local: LocalTime::utc(start_millis + 300_000), members: n as u16 }).unwrap();
                    foresee[0] += 1.0; foresee[1] += f64::from(u8::from((f.watts - t[k]).abs() <= f.band95)); foresee[2] += (f.watts - t[k]).abs() / (truth[k].abs() + 1.0); }
                let out = filter.observe(&rel(t[k] + noise)).unwrap();
                waiting.push((end_millis, t[k]));
                for s in filter.smoothed() { let i = waiting.iter().position(|w| w.0 == s.end_millis).unwrap(); let (_, tt) = waiting.remove(i);
                    if d >= 8 { late[0] += 1.0; late[1] += f64::from(u8::from((s.load.watts - tt).abs() <= s.load.band95)); late[2] += (s.load.watts - tt).abs() / (tt.abs() + 1.0); } }
                let base = if lo < 0.0 { n as f64 * 500.0 } else { truth[k].abs() + 1.0 };
                let s = &mut per_day[d];
                s[0] += noise.abs() / base; s[1] += (out.watts - t[k]).abs() / base;
                s[2] += f64::from(u8::from((out.watts - truth[k]).abs() <= out.band95));
                s[3] += f64::from(u8::from((out.watts - t[k]).abs() <= out.band95));
                s[4] += 1.0; s[5] += out.band95 / base;
                if d >= 14 { seven[0] += noise.abs() / base; seven[1] += (t[k] + noise - truth[k]).abs() / base; seven[2] += (out.watts - truth[k]).abs() / base; seven[3] += 1.0; seven[4] += (t[k]+noise-truth[k]).abs(); seven[5] += (out.watts-truth[k]).abs(); seven[6] += truth[k].abs(); }
            }
        }
        let worst = per_day[1..].iter().map(|s| s[1] / s[0]).fold(0.0, f64::max);
        let ratio: Vec<String> = per_day.iter().map(|s| format!("{:.2}", s[1] / s[0])).collect();
        let cov: Vec<String> = per_day.iter().step_by(3).map(|s| format!("{:.3}", s[3] / s[4])).collect();
        println!("{kind} N={n} seed {seed} worst day 2+ {worst:.3}; ratios {}; cov told {}; week 3 raw {:.4} filtered {:.4}", ratio.join(" "), cov.join(" "), seven[1] / seven[3], seven[2] / seven[3]);
        println!("   absolute raw {:.4} filtered {:.4}", seven[4]/seven[6], seven[5]/seven[6]);
        if std::env::var("BRIEF").is_ok() { continue; }
        println!("   predicted cov {:.3} err {:.4}; late cov {:.3} err {:.4}", foresee[1]/foresee[0], foresee[2]/foresee[0], late[1]/late[0], late[2]/late[0]);
        for (by, h) in changes.iter().zip(&hours) {
            let v: Vec<String> = h.iter().map(|x| format!("{:.2}", x[1] / x[0])).collect();
            println!("   change {by}: {}", v.join(" "));
        }
    }
}
