-- staged model and a month's rollup
with source as (
    select * from orders
),
renamed as (
    select order_id, person_id as customer_id, ordered_at, amount as order_total, status as order_status
    from source
),
final as (
    select date_trunc('month', ordered_at) as order_month, order_status, count(*) as order_count, sum(order_total) as revenue
    from renamed
    group by 1, 2
)
select * from final

-- customers mart, then number of orders
with customer_orders as (
    select person_id, min(ordered_at) as first_order, max(ordered_at) as most_recent_order, count(order_id) as number_of_orders
    from orders
    group by person_id
),
final as (
    select customers.person_id, customers.plan, customer_orders.first_order, customer_orders.most_recent_order,
           coalesce(customer_orders.number_of_orders, 0) as number_of_orders
    from customers
    left join customer_orders using (person_id)
)
select number_of_orders, count(*) as customers from final group by 1 order by 1

-- customers mart, average lifetime value
with customer_payments as (
    select person_id, sum(amount) as lifetime_value from orders where status = 'paid' group by 1
)
select plan, avg(coalesce(lifetime_value, 0)) as avg_ltv
from customers left join customer_payments on customers.person_id = customer_payments.person_id
group by 1

-- median lifetime value
-- within: 3125
with ltv as (select person_id, sum(amount) as total from orders group by person_id)
select median(total) as median_ltv from ltv

-- date spine
with date_spine as (
    select cast(d as date) as date_day from generate_series(date '2024-03-01', date '2024-03-31', interval 1 day) as t(d)
),
daily as (
    select cast(ordered_at as date) as date_day, count(*) as orders from orders group by 1
)
select date_spine.date_day, coalesce(daily.orders, 0) as orders
from date_spine left join daily on date_spine.date_day = daily.date_day
order by 1

-- pivoted statuses as dbt_utils writes them
select
    channel,
    sum(case when status = 'paid' then 1 else 0 end) as paid,
    sum(case when status = 'open' then 1 else 0 end) as open,
    sum(case when status = 'refunded' then 1 else 0 end) as refunded,
    sum(case when status = 'cancelled' then 1 else 0 end) as cancelled
from orders
group by channel

-- not-null test
select count(*) as failures, count(*) != 0 as should_warn, count(*) != 0 as should_error
from (
    select * from orders where amount is null
) dbt_internal_test

-- accepted values test
with all_values as (
    select status as value_field, count(*) as n_records from orders group by status
)
select count(*) as failures from all_values where value_field not in ('paid', 'open', 'refunded', 'cancelled')

-- relationships test
with child as (select product_id as from_field from orders where product_id is not null),
parent as (select product_id as to_field from products)
select count(*) as failures from child left join parent on child.from_field = parent.to_field where parent.to_field is null

-- surrogate key and deduplication
with ranked as (
    select *, row_number() over (partition by person_id, product_id, cast(ordered_at as date) order by ordered_at desc) as row_num
    from orders
)
select count(*) as orders_after_dedup from ranked where row_num = 1

-- incremental filter
select date_trunc('week', opened_at) as week, team, count(*) as tickets
from tickets
where opened_at >= cast('2024-06-01' as timestamp) and opened_at < cast('2024-07-01' as timestamp)
group by 1, 2

-- sessions model
with sessionized as (
    select person_id, session_id, min(ts) as session_start, max(ts) as session_end, count(*) as page_views,
           count(case when event = 'purchase' then 1 end) as purchases
    from events group by person_id, session_id
)
select date_trunc('month', session_start) as month, count(*) as sessions, sum(page_views) as page_views,
       sum(case when purchases > 0 then 1 else 0 end) * 1.0 / count(*) as conversion_rate
from sessionized group by 1 order by 1

-- average session duration in seconds
with sessionized as (
    select person_id, session_id, date_diff('second', min(ts), max(ts)) as duration_s from events group by 1, 2
)
select avg(duration_s) as avg_duration from sessionized

-- MetricFlow: a simple metric
SELECT
  subq_3.metric_time__month
  , SUM(subq_3.revenue) AS revenue
FROM (
  SELECT DATE_TRUNC('month', orders_src.ordered_at) AS metric_time__month, orders_src.amount AS revenue, orders_src.person_id AS customer
  FROM orders AS orders_src
) AS subq_3
GROUP BY subq_3.metric_time__month

-- MetricFlow: a ratio metric
SELECT
  COALESCE(subq_7.channel, subq_13.channel) AS channel
  , CAST(MAX(subq_7.paid_orders) AS DOUBLE) / CAST(NULLIF(MAX(subq_13.all_orders), 0) AS DOUBLE) AS paid_rate
FROM (SELECT channel, COUNT(*) AS paid_orders FROM orders WHERE status = 'paid' GROUP BY channel) AS subq_7
FULL OUTER JOIN (SELECT channel, COUNT(*) AS all_orders FROM orders GROUP BY channel) AS subq_13
ON subq_7.channel = subq_13.channel
GROUP BY COALESCE(subq_7.channel, subq_13.channel)

-- MetricFlow: a cumulative metric
-- is: SELECT day, (SELECT count(DISTINCT person_id) FROM events WHERE ts::DATE <= c.day AND ts::DATE > c.day - INTERVAL 7 DAY) FROM calendar c WHERE day BETWEEN '2024-03-01' AND '2024-03-14'
SELECT subq_1.ds AS metric_time__day, COUNT(DISTINCT e.person_id) AS weekly_users
FROM (SELECT day AS ds FROM calendar WHERE day BETWEEN DATE '2024-03-01' AND DATE '2024-03-14') AS subq_1
LEFT JOIN events e ON CAST(e.ts AS DATE) <= subq_1.ds AND CAST(e.ts AS DATE) > subq_1.ds - INTERVAL 7 DAY
GROUP BY subq_1.ds

-- snapshot of tickets still open at month's end
select c.day as month_end, count(t.ticket_id) as open_tickets
from calendar c
left join tickets t on t.opened_at < c.day + interval 1 day and (t.closed_at is null or t.closed_at >= c.day + interval 1 day)
where c.day = last_day(c.day) and c.day >= date '2024-01-01'
group by 1 order by 1

-- union of relations
with unioned as (
    (select person_id, cast('orders' as varchar) as _dbt_source_relation, cast(ordered_at as date) as activity_date from orders)
    union all
    (select person_id, cast('tickets' as varchar) as _dbt_source_relation, cast(opened_at as date) as activity_date from tickets)
)
select _dbt_source_relation, count(*) as row_count, count(distinct person_id) as people from unioned group by 1

-- customers by recency, frequency and money
with rfm as (
    select person_id, date_diff('day', max(ordered_at), timestamp '2025-01-01') as recency, count(*) as frequency, sum(amount) as monetary
    from orders group by person_id
),
scored as (
    select person_id,
           case when recency <= 90 then 3 when recency <= 180 then 2 else 1 end as r,
           case when frequency >= 5 then 3 when frequency >= 3 then 2 else 1 end as f,
           case when monetary >= 1500 then 3 when monetary >= 500 then 2 else 1 end as m
    from rfm
)
select r, f, m, count(*) as customers from scored group by r, f, m order by r desc, f desc, m desc

-- margin from a public price
select p.category, sum(o.quantity * p.list_price) as gross_value
from orders o inner join products p on o.product_id = p.product_id
group by p.category

-- freshness
-- never: the last moment is one person's
select max(ordered_at) as max_loaded_at, current_timestamp as snapshotted_at from orders

-- uniqueness test
select count(*) as failures from (select coupon, product_id from orders where coupon is not null group by coupon, product_id having count(*) > 1) dbt_internal_test

-- months between first and second order
with numbered as (
    select person_id, ordered_at, row_number() over (partition by person_id order by ordered_at) as n from orders
),
firsts as (select person_id, ordered_at as first_at from numbered where n = 1),
seconds as (select person_id, ordered_at as second_at from numbered where n = 2)
select date_diff('month', first_at, second_at) as months_to_second, count(*) as customers
from firsts inner join seconds using (person_id)
where date_diff('month', first_at, second_at) between 0 and 12
group by 1 order by 1

-- average order value per customer tier
with totals as (
    select person_id, sum(amount) as total, count(*) as n from orders group by 1
),
tiered as (
    select person_id, total, n, case when total > 1500 then 'gold' when total > 500 then 'silver' else 'bronze' end as tier from totals
)
select tier, count(*) as customers, sum(total) / sum(n) as aov from tiered group by tier order by tier
