from engine.grammar.schema import demanding


def test_what_demands_nothing_is_left_out_at_every_depth() -> None:
    schema = {
        "properties": {
            "id": {"type": "integer", "format": "int64"},
            "format": {"type": "string", "format": "password"},
        },
        "items": [{"uniqueItems": False, "propertyNames": True}, True],
        "anyOf": [{"format": "date-time"}],
    }

    assert demanding(schema) == {
        "properties": {"id": {"type": "integer"}, "format": {"type": "string"}},
        "items": [{}, True],
        "anyOf": [{"format": "date-time"}],
    }


def test_what_demands_something_stays() -> None:
    schema = {"uniqueItems": True, "propertyNames": {"pattern": "a"}, "format": "regex", "unevaluatedItems": False}

    assert demanding(schema) == schema


def test_values_are_no_schemas_whatever_they_look_like() -> None:
    value: object = {"format": "int64", "uniqueItems": False}
    schema: dict[str, object] = {
        "const": value,
        "enum": [value],
        "default": value,
        "properties": {"const": {"format": "int64"}},
    }

    assert demanding(schema) == {**schema, "properties": {"const": {}}}


def test_a_wrong_schema_is_left_for_the_library_to_refuse() -> None:
    assert demanding({"properties": 5, "format": 5}) == {"properties": 5, "format": 5}


def test_a_branch_of_one_of_that_speaks_of_properties_alone_means_objects() -> None:
    """Anything but an object would match every such branch, and so be valid by none."""
    named = {"required": ["a"]}
    schema = {
        "definitions": {"a/b": {"properties": {}}, "c": {"type": "string"}},
        "oneOf": [named, {"$ref": "#/definitions/a~1b"}, {"$ref": "#/definitions/c"}, {"$ref": "#/gone/far"}, True, {}],
    }

    branches = demanding(schema)["oneOf"]

    assert branches == [
        {"allOf": [named, {"type": "object"}]},
        {"allOf": [{"$ref": "#/definitions/a~1b"}, {"type": "object"}]},
        {"$ref": "#/definitions/c"},
        {"$ref": "#/gone/far"},
        True,
        {},
    ]
