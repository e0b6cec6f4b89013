{{ config(materialized='view') }}
SELECT customer, total FROM {{ ref('dbt_totals') }} WHERE total > 15
