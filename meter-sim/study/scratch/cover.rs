use crate::gen_::*; use crate::filt::Rng; use dream_filter::*;
struct Cut { homes: f64, l: f64, d: f64, p: f64, h: Vec<f64> }
fn cut(kind: &str, hi: f64, rms: f64) -> Cut {
    let t = std::fs::read_to_string("patch/cut_off.csv").unwrap();
    for line in t.lines().skip(1) { let c: Vec<&str> = line.split(',').collect(); let n = |i: usize| c[i].parse::<f64>().unwrap();
        if c[0] == kind && n(2) == hi && n(3) == rms { return Cut { homes: n(4), l: n(5), d: n(6), p: n(7), h: (8..32).map(n).collect() }; } }
    panic!()
}
// cover kind lambda lo hi rms clusters ns...
pub fn run(a: &[String]) {
    let kind = a[0].as_str(); let p = |i: usize| a[i].parse::<f64>().unwrap();
    let (lambda, lo, hi, rms, clusters) = (p(1), p(2), p(3), p(4), p(5) as usize);
    let c = cut(kind, hi, rms); let shape = 1.25; let v = 2.0 * shape * lambda * lambda;
    let on = std::env::var("NOCUT").is_err();
    for seed in [1u64, 2] {
        let data = load(kind, seed); let days = data.days;
        let t: Vec<Vec<f32>> = (0..data.homes).map(|h| { let w = data.home(h); (0..days).flat_map(|d| told(&w[d * 144..(d + 1) * 144], lo, hi, rms)).map(|x| x as f32).collect() }).collect();
        for ns in &a[6..] {
            let n: usize = ns.parse().unwrap(); let mut rng = Rng::new(seed * 77 + n as u64);
            let mut cov = [[0.0f64; 2]; 10]; // slot est, slot est eve, filt, filt eve, hour, hour eve, day, month, abs err filt
            let (mut ae, mut ar, mut load_) = (0.0, 0.0, 0.0);
            for cl in 0..clusters {
                let m = rng.pick(data.homes, n);
                let (mut tr, mut to) = (vec![0.0f64; days * 144], vec![0.0f64; days * 144]);
                for h in m { let w = data.home(h); for k in 0..days * 144 { tr[k] += f64::from(w[k]); to[k] += f64::from(t[h][k]); } }
                let mut filter = Filter::default();
                let z = 1.959964; let lap = 2.0565 + 0.0; // near shape 1.25
                let zslot = |heavy: f64| { let bend = 2.0 * (2.118277 + z - 2.0 * 2.0565); let slope = 2.118277 - z - bend; z + heavy * (slope + heavy * bend) };
                let _ = lap;
                let mut month = [0.0f64; 6];
                for d in 0..days {
                    let mut day = [0.0f64; 6];
                    for h in 0..24 {
                        let mut hour = [0.0f64; 6]; // est, truth, var, tails, lasting, daily
                        let s = if on { c.h[h] } else { 0.0 };
                        let (l, dd, pp) = (s.abs() * (c.l * c.l * (1.0 / n as f64 + 1.0 / c.homes) + 0.15 * 0.15).sqrt(), s.abs() * c.d / (n as f64).sqrt(), s.abs() * c.p / (n as f64).sqrt());
                        for q in 0..6 {
                            let k = d * 144 + h * 6 + q;
                            let sum = to[k] + rng.noise(lambda, shape).round();
                            let est = sum * (1.0 + s); let dev = (l * l + dd * dd + pp * pp).sqrt() * sum.abs();
                            let band = (zslot(0.8) * v.sqrt() * (1.0 + s)).hypot(z * dev);
                            let hit = f64::from(u8::from((est - tr[k]).abs() <= band));
                            cov[0][0] += hit; cov[0][1] += 1.0; if h >= 17 { cov[1][0] += hit; cov[1][1] += 1.0; }
                            if cl < 8 {
                                let st = 20_003 * 86_400_000 + k as u64 * 600_000;
                                let f = filter.observe(&Release { start_millis: st, end_millis: st + 600_000, local: LocalTime::utc(st + 300_000), watts: sum, variance: v, responders: n as u16, members: n as u16 }).unwrap();
                                let fe = f.watts * (1.0 + s); let fb = (f.band95 * (1.0 + s)).hypot(z * (l * l + dd * dd + pp * pp).sqrt() * f.watts.abs());
                                if d >= 1 { let hit = f64::from(u8::from((fe - tr[k]).abs() <= fb)); cov[2][0] += hit; cov[2][1] += 1.0; if h >= 17 { cov[3][0] += hit; cov[3][1] += 1.0; } }
                                if d >= 14 && d < 21 { ae += (fe - tr[k]).abs(); ar += (est - tr[k]).abs(); load_ += tr[k].abs(); }
                            }
                            let va = v * (1.0 + s).powi(2);
                            hour[0] += est; hour[1] += tr[k]; hour[2] += va + (pp * sum).powi(2); hour[3] += va * va * 0.8; hour[4] += l * sum.abs(); hour[5] += dd * sum.abs();
                        }
                        let check = |x: &[f64; 6]| { let var = x[2] + x[4] * x[4] + x[5] * x[5]; f64::from(u8::from((x[0] - x[1]).abs() <= zslot((x[3] / (var * var)).min(1.0)) * var.sqrt())) };
                        let hit = check(&hour); cov[4][0] += hit; cov[4][1] += 1.0; if h >= 17 { cov[5][0] += hit; cov[5][1] += 1.0; }
                        for i in 0..6 { day[i] += hour[i]; }
                        if h == 23 { cov[6][0] += check(&day); cov[6][1] += 1.0; }
                    }
                    for i in 0..5 { month[i] += day[i]; } month[5] = month[5].hypot(day[5]);
                    if d + 1 == days { let var = month[2] + month[4] * month[4] + month[5] * month[5]; cov[7][0] += f64::from(u8::from((month[0] - month[1]).abs() <= z * var.sqrt())); cov[7][1] += 1.0; }
                }
            }
            let f = |i: usize| cov[i][0] / cov[i][1];
            println!("{kind} N={n} seed {seed}: slot {:.3} eve {:.3} | filtered {:.3} eve {:.3} | hour {:.3} eve {:.3} | day {:.3} | {days} days {:.3} | abs raw {:.4} filtered {:.4}", f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), ar / load_, ae / load_);
        }
    }
}
