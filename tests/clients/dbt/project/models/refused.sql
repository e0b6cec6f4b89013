{{ config(materialized='view') }}
SELECT customer FROM {{ ref('dbt_totals') }}
