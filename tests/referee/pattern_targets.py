"""What the rows of the pattern table are held to: bytes of the best known form, by XLA:CPU, at full size.

`C` is the form that computes blocks in a loop, `R` the one that rolls copies into a loop. A row without figure has no better form: it must
stay as it is. GiB, as in the notes that the figures come from (every form was compiled by XLA).
"""

# Name -> GiB of the best form at the row's exactness.
FORMS = {
    **dict.fromkeys((
        "a_split a_cols a_unstack a_cols_nd a_moveaxis a_tupleT a_soa a_soa_args a_perm_cols a_dims_differ a_vmap a_vmap_tuple a_lead_small "
        "b_get_clip b_add_clip b_get_fill b_get_drop b_get_promise_in_bounds b_add_fill b_add_drop b_add_promise_in_bounds b_get_no_wrap "
        "i_split_concat_noop b_get_flags c_uint32 i_stack_again i_offset j_floor j_clip_floor k_nested_jit").split(), 12.070),
    **dict.fromkeys("a_unravel d_const_col".split(), 4.070),
    **dict.fromkeys("c_int8 i_astype_first".split(), 3.070),
    **dict.fromkeys("c_int16 c_uint16 i_hidden_transpose".split(), 6.070),
    **dict.fromkeys("e_1d j_rem j_and".split(), 4.035),
    **dict.fromkeys("d_take_along d_take_along_last3".split(), 5.012),
    **dict.fromkeys("d_batched_arange2 d_vmap_row".split(), 4.051),
    **dict.fromkeys("f_set f_max f_min f_multiply f_add_upd f_add_upd_scaled".split(), 16.078),
    **dict.fromkeys("f_set_const m_add_into_arg h_grad_sin h_sgd_step f_two_tables k_cond k_remat".split(), 12.078),
    **dict.fromkeys("g_trilinear g_map_coordinates".split(), 3.082),
    **dict.fromkeys("l_gnn l_gnn_edge_index".split(), 0.137),
    "a_two_of_four": 16.051, "a_ravel_multi": 12.039, "c_uint8": 3.070, "c_int64": 24.070, "d_arange_col": 4.253, "d_slice_col": 4.078,
    "d_xent": 12.125, "e_1d_int16": 2.031, "e_embed": 0.035, "e_embed_bag": 0.337, "e_embed_bag_grad": 0.109, "e_take_axis1": 0.079,
    "e_segment_mean": 8.031, "e_bincount": 4.031, "e_histogram2d": 8.047, "f_product": 12.094, "g_fwd_sum": 12.023, "g_fwd_fill": 16.055,
    "g_window": 2.024, "g_interp_1d": 4.043, "h_grad_weights": 16.070, "h_value_and_grad": 12.078, "h_scatter_then_gather": 8.023,
    "j_hash_u32": 6.027, "j_argmax": 9.000, "j_argsort": 4.000, "k_while_sgd": 12.086, "k_scan": 12.023, "k_scan_same_idx": 20.02,
    "l_gnn_grad": 0.145, "l_spmv": 12.032, "l_pairwise_force": 0.513, "l_bcoo_matmul": 0.769, "m_scatter_iota": 8.031, "m_int8_table": 8.037,
    "m_bf16_scatter": 10.039, "m_where_drop": 5.039, "m_one_hot_embed": 0.047, "q_histogram": 28.0, "q_interp_grad": 28.0,
    "o_seed2_pmap": 2.063, "o_unrolled_gather": 4.063, "o_unrolled_sum_hht": 2.750, "o_unrolled_microbatch": 3.012,
    "p_replicated_arg": 12.071, "p_shard_map": 3.028,
}

# Rows that must come back as they are.
KEPT = ("e_segment_sum e_segment_max e_segment_sum_rows g_fwd_out g_fwd_rows g_fwd_int16 o_unrolled_layers p_sharded_idx").split()

# Rows whose best form regroups float sums.
REGROUPED = ("g_fwd_sum h_value_and_grad k_scan_same_idx m_one_hot_embed m_moe_onehot r09_cross_entropy r17_vmap_per_example_grad "
             "r05_outer_reduce_grad r18_pairwise_argmin").split()

# Recipes with a form by hand beside them.
RECIPES = ("r01_gather_grad_indices r05_outer_reduce_grad r06_vmap_at_set r08_scan_residuals r09_cross_entropy r10_embedding_grad "
           "r11_bincount_histogram r17_vmap_per_example_grad r18_pairwise_argmin r24_vmap_dynamic_slice").split()
