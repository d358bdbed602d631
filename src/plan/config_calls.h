/* config_calls.h - fields of config.json that are more than a number or a flag: the calls of
 * VW__CONFIG_KEY_CALL, which read them into a vw_plan_model. */
#ifndef VW_PLAN_CONFIG_CALLS_H
#define VW_PLAN_CONFIG_CALLS_H

#include "plan/config_keys.h"

typedef vw_status vw__config_call(const vw__config *config, const vw__config_key *key, void *into);

vw__config_call vw__config_call_activation;
vw__config_call vw__config_call_head_width;
vw__config_call vw__config_call_check_rotary;
vw__config_call vw__config_call_rotary;
vw__config_call vw__config_call_forget_heads;
vw__config_call vw__config_call_window;
vw__config_call vw__config_call_layer_types;
vw__config_call vw__config_call_switched_window;
vw__config_call vw__config_call_late_window;
vw__config_call vw__config_call_experts;
vw__config_call vw__config_call_refuse_plain_layers;
vw__config_call vw__config_call_position_offset;
vw__config_call vw__config_call_t5_feed;
vw__config_call vw__config_call_rotated_layers;
vw__config_call vw__config_call_offset_positions;
vw__config_call vw__config_call_token_width;
vw__config_call vw__config_call_same;
vw__config_call vw__config_call_mpt_attention;
vw__config_call vw__config_call_falcon;
vw__config_call vw__config_call_distances;
vw__config_call vw__config_call_half_window;
vw__config_call vw__config_call_require_true;

#endif /* VW_PLAN_CONFIG_CALLS_H */
