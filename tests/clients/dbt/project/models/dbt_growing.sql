{{ config(materialized='incremental', unique_key='id') }}
SELECT id, customer, amount FROM {{ ref('dbt_orders') }}
{% if is_incremental() %}
WHERE id > (SELECT max(id) FROM {{ this }})
{% endif %}
