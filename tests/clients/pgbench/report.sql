\set low random(1, 90000)
SELECT count(*) AS accounts, sum(abalance) AS total FROM pgbench_accounts
    WHERE aid BETWEEN :low AND :low + 1000 \gset
\if :accounts < 1001
SELECT 1 / 0;
\endif
