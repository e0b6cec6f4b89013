SELECT id FROM {{ ref('dbt_orders') }} WHERE amount < 0
