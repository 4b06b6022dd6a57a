# The numbers of R's survey package, for test_r_survey.py: writes its tables as CSV, and estimates with their errors.
suppressPackageStartupMessages(library(survey))
folder <- commandArgs(TRUE)[1]
data(api)
data(nhanes)

save_table <- function(x, name) write.csv(x, file.path(folder, paste0(name, ".csv")), row.names = FALSE, na = "")
lines <- character()
tell <- function(key, value, error) {
  value <- as.numeric(value)
  lines <<- c(lines, sprintf("%s %d %.12g %.12g", key, seq_along(value) - 1L, value, as.numeric(error)))
}
told <- function(key, s) tell(key, coef(s), SE(s))

# Every statistic of one design of schools.
schools <- function(key, d) {
  name <- function(what) paste(key, what, sep = ".")
  d <- update(d, one = 1, good = as.numeric(api00 >= 700), x = api00 - 650, y = meals - 50)
  d <- update(d, xx = x^2, xy = x * y, yy = y^2)
  wide <- subset(d, sch.wide == "Yes")
  told(name("mean"), svymean(~api00, d))
  told(name("total"), svytotal(~enroll, d))
  told(name("count"), svytotal(~one, d))
  told(name("ratio"), svyratio(~api.stu, ~enroll, d))
  told(name("that"), svymean(~good, d))
  told(name("values"), svymean(~stype, d))
  told(name("variance"), svyvar(~api00, d))
  if (inherits(d, "svyrep.design")) {
    told(name("correlation"), withReplicates(d, function(w, t) cov.wt(t[, c("x", "y")], w, cor = TRUE)$cor[1, 2]))
  } else {
    moments <- svymean(~x + y + xx + xy + yy, d)
    told(name("correlation"), svycontrast(moments, quote((xy - x * y) / sqrt((xx - x^2) * (yy - y^2)))))
  }
  told(name("domain"), svymean(~api00, wide))
  told(name("domaintotal"), svytotal(~enroll, subset(d, sch.wide == "Yes" & meals >= 20)))
  told(name("domaincount"), svytotal(~one, wide))
  told(name("domainvariance"), svyvar(~api00, wide))
  told(name("by"), svyby(~api00, ~stype, d, svymean))
  q <- svyquantile(~api00, d, c(.25, .5, .75))$api00
  tell(name("quantile"), q[, 1], q[, 4])
}

apiclus2 <- apiclus2[!is.na(apiclus2$enroll), ]
apistrat$pair <- ave(seq_len(nrow(apistrat)), apistrat$stype, FUN = function(i) (seq_along(i) - 1) %/% 10)
# One stratum keeps a single psu.
lonely <- apistrat[apistrat$stype != "H" | apistrat$pair == 0, ]

strat <- svydesign(id = ~1, strata = ~stype, weights = ~pw, data = apistrat, fpc = ~fpc)
schools("strat", strat)
schools("stratnofpc", svydesign(id = ~1, strata = ~stype, weights = ~pw, data = apistrat))
schools("srs", svydesign(id = ~1, fpc = ~fpc, weights = ~pw, data = apisrs))
clus1 <- svydesign(id = ~dnum, weights = ~pw, data = apiclus1, fpc = ~fpc)
schools("clus1", clus1)
schools("clus1nofpc", svydesign(id = ~dnum, weights = ~pw, data = apiclus1))
schools("clus2", svydesign(id = ~ dnum + snum, weights = ~pw, fpc = ~ fpc1 + fpc2, data = apiclus2))
schools("nested", svydesign(id = ~pair, strata = ~stype, weights = ~pw, data = apistrat, nest = TRUE))
for (way in c("remove", "certainty", "adjust", "average")) {
  options(survey.lonely.psu = way)
  schools(way, svydesign(id = ~pair, strata = ~stype, weights = ~pw, data = lonely, nest = TRUE))
}
options(survey.lonely.psu = "fail")

# Replicate weights, made by R and read back as columns.
replicated <- function(key, d, table) {
  rep <- as.matrix(weights(d, "analysis"))
  colnames(rep) <- paste0("rep", seq_len(ncol(rep)))
  save_table(cbind(table, rep), key)
  schools(key, d)
  scales <- sprintf("%s.scales %d %.12g %.12g", key, seq_len(ncol(rep)) - 1L, rep(d$scale, ncol(rep)), rep_len(d$rscales, ncol(rep)))
  lines <<- c(lines, scales)
}
replicated("jk1", as.svrepdesign(clus1), apiclus1)
paired <- apistrat[apistrat$pair < 2, ]
nested <- svydesign(id = ~pair, strata = ~stype, weights = ~pw, data = paired, nest = TRUE)
replicated("jkn", as.svrepdesign(nested, type = "JKn"), paired)
replicated("brr", as.svrepdesign(nested, type = "BRR"), paired)
replicated("fay", as.svrepdesign(nested, type = "Fay", fay.rho = 0.3), paired)
set.seed(20)
replicated("bootstrap", as.svrepdesign(clus1, type = "bootstrap", replicates = 40), apiclus1)

for (name in c("apistrat", "apisrs", "apiclus1", "apiclus2", "lonely", "nhanes")) save_table(get(name), name)
health <- svydesign(id = ~SDMVPSU, strata = ~SDMVSTRA, weights = ~WTMEC2YR, nest = TRUE, data = nhanes)
told("nhanes.mean", svymean(~HI_CHOL, health, na.rm = TRUE))
told("nhanes.by", svyby(~HI_CHOL, ~ race + RIAGENDR, health, svymean, na.rm = TRUE))
told("nhanes.count", svytotal(~ I(WTMEC2YR * 0 + 1), health))
tell("degf", c(degf(strat), degf(clus1), degf(health)), c(0, 0, 0))
writeLines(lines, file.path(folder, "numbers.txt"))
