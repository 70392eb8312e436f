/* The filters of lists, for the table of filters. */
#ifndef TH_MODELS_JINJA_FILTERS_H
#define TH_MODELS_JINJA_FILTERS_H

#include "models/jinja/value.h"

typedef th_jinja_value th_jinja_filter_call(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given);

th_jinja_filter_call th_jinja_filter_batch, th_jinja_filter_dictsort, th_jinja_filter_first, th_jinja_filter_items,
    th_jinja_filter_join, th_jinja_filter_last, th_jinja_filter_list, th_jinja_filter_map, th_jinja_filter_max,
    th_jinja_filter_min, th_jinja_filter_reject, th_jinja_filter_rejectattr, th_jinja_filter_reverse,
    th_jinja_filter_select, th_jinja_filter_selectattr, th_jinja_filter_sort, th_jinja_filter_sum,
    th_jinja_filter_unique;

#endif
