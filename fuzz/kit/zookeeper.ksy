meta:
  id: zookeeper
  title: The client protocol of Apache ZooKeeper
  license: MIT OR Apache-2.0
  endian: be
doc: |
  What a client sends on one connection. What a server sends is a `connect_response_frame`, then
  frames of `reply`, whose parameter is the operation of the request with the same xid.

  Generated from the records of the Rust crate zk-proto.
seq:
  - {id: connect, type: connect_request_frame}
  - {id: requests, type: request_frame, repeat: eos}
types:
  connect_request_frame:
    seq:
      - {id: len, type: s4, valid: {min: 0}}
      - {id: body, type: connect_request, size: len}
  connect_response_frame:
    seq:
      - {id: len, type: s4, valid: {min: 0}}
      - {id: body, type: connect_response, size: len}
  request_frame:
    seq:
      - {id: len, type: s4, valid: {min: 0}}
      - {id: body, type: request, size: len}
  end:
    seq:
      - {id: rest, size-eos: true, valid: {expr: _.length == 0}}
  unknown:
    seq:
      - {id: nothing, size: 0, valid: {expr: 'false'}}
  text:
    seq:
      - {id: len, type: s4, valid: {min: 0}}
      - {id: value, type: str, size: len, encoding: UTF-8}
  nullable_text:
    seq:
      - {id: len, type: s4, valid: {min: -1}}
      - {id: value, type: str, size: len, encoding: UTF-8, if: len >= 0}
  nullable_buffer:
    seq:
      - {id: len, type: s4, valid: {min: -1}}
      - {id: value, size: len, if: len >= 0}
  request:
    seq:
      - {id: header, type: request_header}
      - id: body
        type:
          switch-on: header.opcode
          cases:
            op_code::create: create_request
            op_code::delete: delete_request
            op_code::exists: exists_request
            op_code::get_data: get_data_request
            op_code::set_data: set_data_request
            op_code::get_acl: get_acl_request
            op_code::set_acl: set_acl_request
            op_code::get_children: get_children_request
            op_code::sync: sync_request
            op_code::ping: void
            op_code::get_children2: get_children_request
            op_code::check: check_version_request
            op_code::multi: multi_request
            op_code::create2: create_request
            op_code::reconfig: reconfig_request
            op_code::check_watches: check_watches_request
            op_code::remove_watches: remove_watches_request
            op_code::create_container: create_request
            op_code::delete_container: delete_container_request
            op_code::create_ttl: create_ttl_request
            op_code::multi_read: multi_read_request
            op_code::auth: auth_packet
            op_code::set_watches: set_watches
            op_code::sasl: get_sasl_request
            op_code::get_ephemerals: get_ephemerals_request
            op_code::get_all_children_number: get_all_children_number_request
            op_code::set_watches2: set_watches2
            op_code::add_watch: add_watch_request
            op_code::who_am_i: void
            op_code::close_session: void
            _: unknown
      - {id: end, type: end}
  reply:
    params:
      - {id: opcode, type: s4, enum: op_code}
    seq:
      - {id: header, type: reply_header}
      - {id: event, type: watcher_event, if: header.xid == xid::notification}
      - id: body
        if: header.xid != xid::notification and header.err == error_code::ok
        type:
          switch-on: opcode
          cases:
            op_code::create: create_response
            op_code::delete: void
            op_code::exists: exists_response
            op_code::get_data: get_data_response
            op_code::set_data: set_data_response
            op_code::get_acl: get_acl_response
            op_code::set_acl: set_acl_response
            op_code::get_children: get_children_response
            op_code::sync: sync_response
            op_code::ping: void
            op_code::get_children2: get_children2_response
            op_code::check: void
            op_code::multi: multi_response
            op_code::create2: create2_response
            op_code::reconfig: get_data_response
            op_code::check_watches: void
            op_code::remove_watches: void
            op_code::create_container: create2_response
            op_code::delete_container: void
            op_code::create_ttl: create2_response
            op_code::multi_read: multi_read_response
            op_code::auth: void
            op_code::set_watches: void
            op_code::sasl: set_sasl_response
            op_code::get_ephemerals: get_ephemerals_response
            op_code::get_all_children_number: get_all_children_number_response
            op_code::set_watches2: void
            op_code::add_watch: error_response
            op_code::who_am_i: who_am_i_response
            op_code::close_session: void
            _: unknown
      - {id: end, type: end, if: header.err == error_code::ok}
  acl:
    seq:
      - {id: perms, type: s4, enum: perms}
      - {id: id, type: id}
  add_watch_request:
    seq:
      - {id: path, type: text}
      - {id: mode, type: s4, enum: add_watch_mode}
  auth_packet:
    seq:
      - {id: auth_type, type: s4}
      - {id: scheme, type: text}
      - {id: auth, type: nullable_buffer}
  check_version_request:
    seq:
      - {id: path, type: text}
      - {id: version, type: s4}
  check_watches_request:
    seq:
      - {id: path, type: text}
      - {id: watcher_type, type: s4, enum: watcher_type}
  client_info:
    seq:
      - {id: auth_scheme, type: text}
      - {id: user, type: text}
  connect_request:
    seq:
      - {id: protocol_version, type: s4}
      - {id: last_zxid_seen, type: s8}
      - {id: timeout, type: s4}
      - {id: session_id, type: s8}
      - {id: password, type: nullable_buffer}
      - {id: read_only, type: u1, if: not _io.eof}
      - {id: end, type: end}
  connect_response:
    seq:
      - {id: protocol_version, type: s4}
      - {id: timeout, type: s4}
      - {id: session_id, type: s8}
      - {id: password, type: nullable_buffer}
      - {id: read_only, type: u1, if: not _io.eof}
      - {id: end, type: end}
  create2_response:
    seq:
      - {id: path, type: text}
      - {id: stat, type: stat}
  create_request:
    seq:
      - {id: path, type: text}
      - {id: data, type: nullable_buffer}
      - {id: acl, type: list_of_acl}
      - {id: mode, type: s4, enum: create_mode}
  create_response:
    seq:
      - {id: path, type: text}
  create_ttl_request:
    seq:
      - {id: path, type: text}
      - {id: data, type: nullable_buffer}
      - {id: acl, type: list_of_acl}
      - {id: mode, type: s4, enum: create_mode}
      - {id: ttl, type: s8}
  delete_container_request:
    seq:
      - {id: path, type: text}
  delete_request:
    seq:
      - {id: path, type: text}
      - {id: version, type: s4}
  error_response:
    seq:
      - {id: err, type: s4, enum: error_code}
  exists_request:
    seq:
      - {id: path, type: text}
      - {id: watch, type: u1}
  exists_response:
    seq:
      - {id: stat, type: stat}
  get_acl_request:
    seq:
      - {id: path, type: text}
  get_acl_response:
    seq:
      - {id: acl, type: list_of_acl}
      - {id: stat, type: stat}
  get_all_children_number_request:
    seq:
      - {id: path, type: text}
  get_all_children_number_response:
    seq:
      - {id: total_number, type: s4}
  get_children2_response:
    seq:
      - {id: children, type: list_of_text}
      - {id: stat, type: stat}
  get_children_request:
    seq:
      - {id: path, type: text}
      - {id: watch, type: u1}
  get_children_response:
    seq:
      - {id: children, type: list_of_text}
  get_data_request:
    seq:
      - {id: path, type: text}
      - {id: watch, type: u1}
  get_data_response:
    seq:
      - {id: data, type: nullable_buffer}
      - {id: stat, type: stat}
  get_ephemerals_request:
    seq:
      - {id: prefix_path, type: nullable_text}
  get_ephemerals_response:
    seq:
      - {id: ephemerals, type: list_of_text}
  get_sasl_request:
    seq:
      - {id: token, type: nullable_buffer}
  id:
    seq:
      - {id: scheme, type: text}
      - {id: id, type: nullable_text}
  list_of_acl:
    seq:
      - {id: len, type: s4, valid: {min: -1}}
      - {id: items, type: acl, repeat: expr, repeat-expr: len, if: len >= 0}
  list_of_client_info:
    seq:
      - {id: len, type: s4, valid: {min: -1}}
      - {id: items, type: client_info, repeat: expr, repeat-expr: len, if: len >= 0}
  list_of_text:
    seq:
      - {id: len, type: s4, valid: {min: -1}}
      - {id: items, type: text, repeat: expr, repeat-expr: len, if: len >= 0}
  multi_header:
    seq:
      - {id: opcode, type: s4, enum: op_code}
      - {id: done, type: u1}
      - {id: err, type: s4, enum: error_code}
  multi_read_request:
    seq:
      - {id: items, type: multi_read_request_item, repeat: until, repeat-until: _.header.done != 0}
  multi_read_request_item:
    seq:
      - {id: header, type: multi_header}
      - id: body
        if: header.done == 0
        type:
          switch-on: header.opcode
          cases:
            op_code::get_data: get_data_request
            op_code::get_children: get_children_request
            _: unknown
  multi_read_response:
    seq:
      - {id: items, type: multi_read_response_item, repeat: until, repeat-until: _.header.done != 0}
  multi_read_response_item:
    seq:
      - {id: header, type: multi_header}
      - id: body
        if: header.done == 0
        type:
          switch-on: header.opcode
          cases:
            op_code::get_data: get_data_response
            op_code::get_children: get_children_response
            op_code::error: error_response
            _: unknown
  multi_request:
    seq:
      - {id: items, type: multi_request_item, repeat: until, repeat-until: _.header.done != 0}
  multi_request_item:
    seq:
      - {id: header, type: multi_header}
      - id: body
        if: header.done == 0
        type:
          switch-on: header.opcode
          cases:
            op_code::create: create_request
            op_code::delete: delete_request
            op_code::set_data: set_data_request
            op_code::check: check_version_request
            op_code::create2: create_request
            op_code::create_container: create_request
            op_code::create_ttl: create_ttl_request
            _: unknown
  multi_response:
    seq:
      - {id: items, type: multi_response_item, repeat: until, repeat-until: _.header.done != 0}
  multi_response_item:
    seq:
      - {id: header, type: multi_header}
      - id: body
        if: header.done == 0
        type:
          switch-on: header.opcode
          cases:
            op_code::create: create_response
            op_code::delete: void
            op_code::set_data: set_data_response
            op_code::check: void
            op_code::create2: create2_response
            op_code::error: error_response
            _: unknown
  reconfig_request:
    seq:
      - {id: joining_servers, type: nullable_text}
      - {id: leaving_servers, type: nullable_text}
      - {id: new_members, type: nullable_text}
      - {id: cur_config_id, type: s8}
  remove_watches_request:
    seq:
      - {id: path, type: text}
      - {id: watcher_type, type: s4, enum: watcher_type}
  reply_header:
    seq:
      - {id: xid, type: s4, enum: xid}
      - {id: zxid, type: s8}
      - {id: err, type: s4, enum: error_code}
  request_header:
    seq:
      - {id: xid, type: s4, enum: xid}
      - {id: opcode, type: s4, enum: op_code}
  set_acl_request:
    seq:
      - {id: path, type: text}
      - {id: acl, type: list_of_acl}
      - {id: version, type: s4}
  set_acl_response:
    seq:
      - {id: stat, type: stat}
  set_data_request:
    seq:
      - {id: path, type: text}
      - {id: data, type: nullable_buffer}
      - {id: version, type: s4}
  set_data_response:
    seq:
      - {id: stat, type: stat}
  set_sasl_response:
    seq:
      - {id: token, type: nullable_buffer}
  set_watches:
    seq:
      - {id: relative_zxid, type: s8}
      - {id: data_watches, type: list_of_text}
      - {id: exist_watches, type: list_of_text}
      - {id: child_watches, type: list_of_text}
  set_watches2:
    seq:
      - {id: relative_zxid, type: s8}
      - {id: data_watches, type: list_of_text}
      - {id: exist_watches, type: list_of_text}
      - {id: child_watches, type: list_of_text}
      - {id: persistent_watches, type: list_of_text}
      - {id: persistent_recursive_watches, type: list_of_text}
  stat:
    seq:
      - {id: czxid, type: s8}
      - {id: mzxid, type: s8}
      - {id: ctime, type: s8}
      - {id: mtime, type: s8}
      - {id: version, type: s4}
      - {id: cversion, type: s4}
      - {id: aversion, type: s4}
      - {id: ephemeral_owner, type: s8}
      - {id: data_length, type: s4}
      - {id: num_children, type: s4}
      - {id: pzxid, type: s8}
  sync_request:
    seq:
      - {id: path, type: text}
  sync_response:
    seq:
      - {id: path, type: text}
  void:
    seq: []
  watcher_event:
    seq:
      - {id: event_type, type: s4, enum: event_type}
      - {id: state, type: s4, enum: keeper_state}
      - {id: path, type: text}
  who_am_i_response:
    seq:
      - {id: client_info, type: list_of_client_info}
enums:
  op_code:
    0: notification
    1: create
    2: delete
    3: exists
    4: get_data
    5: set_data
    6: get_acl
    7: set_acl
    8: get_children
    9: sync
    11: ping
    12: get_children2
    13: check
    14: multi
    15: create2
    16: reconfig
    17: check_watches
    18: remove_watches
    19: create_container
    20: delete_container
    21: create_ttl
    22: multi_read
    100: auth
    101: set_watches
    102: sasl
    103: get_ephemerals
    104: get_all_children_number
    105: set_watches2
    106: add_watch
    107: who_am_i
    -10: create_session
    -11: close_session
    -1: error
    500: filtered_list
    501: check_not_exists
    502: create_if_not_exists
    503: remove_recursive
    504: check_stat
    505: try_remove
    506: filtered_list_with_stats_and_data
    507: list_recursive
  error_code:
    0: ok
    -1: system_error
    -2: runtime_inconsistency
    -3: data_inconsistency
    -4: connection_loss
    -5: marshalling_error
    -6: unimplemented
    -7: operation_timeout
    -8: bad_arguments
    -9: invalid_state
    -12: unknown_session
    -13: new_config_no_quorum
    -14: reconfig_in_progress
    -15: ssl_connection_error
    -100: api_error
    -101: no_node
    -102: no_auth
    -103: bad_version
    -108: no_children_for_ephemerals
    -110: node_exists
    -111: not_empty
    -112: session_expired
    -113: invalid_callback
    -114: invalid_acl
    -115: auth_failed
    -116: closing
    -117: nothing
    -118: session_moved
    -119: not_read_only
    -120: ephemeral_on_local_session
    -121: no_watcher
    -122: request_timeout
    -123: reconfig_disabled
    -124: session_closed_require_sasl_auth
    -125: quota_exceeded
    -127: throttled_op
  xid:
    -1: notification
    -2: ping
    -4: auth
    -8: set_watches
  event_type:
    -1: none
    1: node_created
    2: node_deleted
    3: node_data_changed
    4: node_children_changed
    5: data_watch_removed
    6: child_watch_removed
    7: persistent_watch_removed
  keeper_state:
    -1: unknown
    0: disconnected
    1: no_sync_connected
    3: sync_connected
    4: auth_failed
    5: connected_read_only
    6: sasl_authenticated
    7: closed
    -112: expired
  create_mode:
    0: persistent
    1: ephemeral
    2: persistent_sequential
    3: ephemeral_sequential
    4: container
    5: persistent_with_ttl
    6: persistent_sequential_with_ttl
  add_watch_mode:
    0: persistent
    1: persistent_recursive
  watcher_type:
    1: children
    2: data
    3: any
    4: persistent
    5: persistent_recursive
  perms:
    1: read
    2: write
    4: create
    8: delete
    16: admin
    31: all
