use crate::gen_::*;
// cut kind seed lo hi rms : shares by hour and components
pub fn stats(data: &Data, lo: f64, hi: f64, rms: f64) -> ([f64; 24], f64, f64, f64, f64) {
    let (n, days) = (data.homes, data.days);
    let mut lost = [0.0; 24]; let mut told_ = [0.0; 24];
    // per home-day total lost and told
    let mut l = vec![0.0; n * days]; let mut all_t = 0.0;
    let mut slot_sq = 0.0; // for slot level
    for h in 0..n { for d in 0..days {
        let day = &data.home(h)[d * 144..(d + 1) * 144];
        for (k, m) in told(day, lo, hi, rms).into_iter().enumerate() {
            let x = f64::from(day[k]) - m;
            lost[k / 6] += x; told_[k / 6] += m.abs(); l[h * days + d] += x; all_t += m.abs(); slot_sq += x * x;
        }
    } }
    let mut shares = [0.0; 24]; for i in 0..24 { shares[i] = lost[i] / told_[i]; }
    let mean_t = all_t / (n * days) as f64; // per home day
    let total: f64 = l.iter().sum::<f64>() / (n * days) as f64;
    // anova
    let hm: Vec<f64> = (0..n).map(|h| l[h * days..(h + 1) * days].iter().sum::<f64>() / days as f64).collect();
    let within: f64 = (0..n).map(|h| l[h * days..(h + 1) * days].iter().map(|x| (x - hm[h]).powi(2)).sum::<f64>()).sum::<f64>() / (n * (days - 1)) as f64;
    let between = hm.iter().map(|x| (x - total).powi(2)).sum::<f64>() / (n - 1) as f64 - within / days as f64;
    let slot_sd = (slot_sq / (n * days * 144) as f64).sqrt() / (mean_t / 144.0);
    (shares, total / mean_t, between.max(0.0).sqrt() / mean_t, within.sqrt() / mean_t, slot_sd)
}
pub fn run(a: &[String]) {
    let data = load(&a[0], a[1].parse().unwrap());
    let p = |i: usize| a[i].parse::<f64>().unwrap();
    let (s, tot, b, w, sl) = stats(&data, p(2), p(3), p(4));
    let v: Vec<String> = s.iter().map(|x| format!("{:.2}", 100.0 * x)).collect();
    println!("{} {} lo {} hi {} rms {}: total {:.2}% persistent sd/home {:.3} daily {:.3} slot {:.3}; {}", a[0], a[1], p(2), p(3), p(4), 100.0 * tot, b, w, sl, v.join(" "));
}

pub fn table(seed: u64) {
    let h: Vec<String> = (0..24).map(|h| format!("h{h}")).collect();
    println!("kind,lo,hi,rms,homes,persistent,daily,slot,{}", h.join(","));
    let grid: [(&str, bool, [f64; 3], [f64; 6]); 4] = [
        ("flat", false, [3500., 5000., 8000.], [800., 1000., 1200., 1500., 2000., 0.]),
        ("house", false, [5000., 8000., 12000.], [1200., 1450., 1750., 2200., 3000., 0.]),
        ("electric-heat", false, [10000., 15000., 20000.], [5000., 6000., 7200., 9000., 12000., 0.]),
        ("pv", true, [5000., 8000., 12000.], [1800., 2200., 2650., 3300., 4500., 0.]),
    ];
    for (kind, signed, his, rmss) in grid {
        let data = load(kind, seed);
        for hi in his { for rms in rmss {
            let lo = if signed { -hi } else { 0.0 };
            let r = if rms == 0.0 { 1e9 } else { rms };
            let (s, tot, b, w, sl) = stats(&data, lo, hi, r);
            let _ = tot;
            // of hours, each by its size
            let abs = abs_total(&data, lo, hi, r);
            let cv = |x: f64| if abs > 1e-6 { x / abs } else { 0.0 };
            let v: Vec<String> = s.iter().map(|x| format!("{:.5}", x)).collect();
            println!("{kind},{lo},{hi},{rms},{},{:.2},{:.2},{:.2},{}", data.homes, cv(b), cv(w), cv(sl), v.join(","));
        } }
    }
}
fn abs_total(data: &Data, lo: f64, hi: f64, rms: f64) -> f64 {
    let (mut lost, mut t) = ([0.0f64; 24], 0.0);
    for h in 0..data.homes { for d in 0..data.days { let day = &data.home(h)[d * 144..(d + 1) * 144];
        for (k, m) in told(day, lo, hi, rms).into_iter().enumerate() { lost[k / 6] += f64::from(day[k]) - m; t += m.abs(); } } }
    lost.iter().map(|x| x.abs()).sum::<f64>() / t
}
