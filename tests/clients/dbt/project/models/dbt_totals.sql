SELECT customer, sum(amount) AS total, max(day) AS last_day FROM {{ ref('dbt_orders') }} GROUP BY customer
