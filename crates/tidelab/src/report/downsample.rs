//! Fewer points of a long series for the page, with its extremes kept: a spike of one second is
//! drawn. The figures of a report never come from here.

use crate::run::Series;

/// A series with at most `points` rows; `points` is at least 2. A short series stays as it is.
///
/// A longer one is cut into equal parts, and each part becomes two rows. They hold the least and the greatest
/// value of each column, in order of time. The times are those of the part's first and middle row, so a value
/// moves by less than its part. A column without a value in a part has none in both rows.
pub fn downsample(series: &Series, points: usize) -> Series {
    let rows = &series.rows;
    let parts = points.max(2) / 2;
    if rows.len() <= points.max(2) {
        return series.clone();
    }
    let mut fewer = Series { columns: series.columns.clone(), rows: Vec::with_capacity(parts * 2) };
    for part in 0..parts {
        let part = &rows[part * rows.len() / parts..(part + 1) * rows.len() / parts];
        let middle = &part[part.len() / 2];
        let (mut first, mut second) = (vec![part[0][0]], vec![middle[0]]);
        for column in 1..series.columns.len() {
            let values = || part.iter().map(|row| row[column]).enumerate().filter(|(_, v)| v.is_finite());
            let least = values().min_by(|a, b| a.1.total_cmp(&b.1));
            let greatest = values().max_by(|a, b| a.1.total_cmp(&b.1));
            let (a, b) = match (least, greatest) {
                (Some((at, least)), Some((later, greatest))) if at <= later => (least, greatest),
                (Some((_, least)), Some((_, greatest))) => (greatest, least),
                _ => (f64::NAN, f64::NAN),
            };
            first.push(a);
            second.push(b);
        }
        fewer.rows.push(first);
        if part.len() > 1 {
            fewer.rows.push(second);
        }
    }
    fewer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: impl IntoIterator<Item = f64>) -> Series {
        let mut series = Series::new(["a"]);
        series.rows = values.into_iter().enumerate().map(|(at, value)| vec![at as f64, value]).collect();
        series
    }

    #[test]
    fn a_short_one_stays_as_it_is() {
        let short = series((0..600).map(f64::from));
        assert_eq!(downsample(&short, 600), short);
        assert_eq!(downsample(&series([]), 600).rows.len(), 0);
    }

    #[test]
    fn extremes_of_one_second_are_kept_near_their_place() {
        let mut values: Vec<f64> = (0..1801).map(|at| 100.0 + f64::from(at % 7)).collect();
        (values[777], values[1500]) = (9000.0, 0.0);
        let fewer = downsample(&series(values), 600);
        assert_eq!(fewer.rows.len(), 600);
        let at = |wanted: f64| fewer.rows.iter().find(|row| row[1] == wanted).map(|row| row[0]);
        assert!((at(9000.0).unwrap() - 777.0).abs() <= 7.0);
        assert!((at(0.0).unwrap() - 1500.0).abs() <= 7.0);
        assert!(fewer.rows.windows(2).all(|two| two[0][0] < two[1][0]), "time goes on");
    }

    #[test]
    fn each_column_has_its_own_extremes_and_gaps_stay() {
        let mut both = Series::new(["a", "b"]);
        both.rows = (0..10).map(|at| vec![f64::from(at), f64::from(at), -f64::from(at)]).collect();
        for row in &mut both.rows[5..] {
            row[2] = f64::NAN;
        }
        let fewer = downsample(&both, 4);
        assert_eq!(fewer.rows[0], [0.0, 0.0, 0.0]);
        assert_eq!(fewer.rows[1], [2.0, 4.0, -4.0], "greatest first where it came first");
        assert!(fewer.rows[2][2].is_nan() && fewer.rows[3][2].is_nan());
    }
}
