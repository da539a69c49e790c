"""A script in every text that somebody may write is text on every page."""

from tests.support.team_pages import ADMIN_PAGES, project_pages, read_page


def test_no_text_of_a_person_becomes_a_part_of_a_page(hostile_running, hostile_world):
    pages = {**project_pages(hostile_world), "first": "/", "account": "/account"}
    shown = 0
    for name, paths in (("ada", pages), ("rosa", pages), ("root", {each: each for each in ADMIN_PAGES})):
        with hostile_running.client(hostile_world.cookies[name]) as client:
            for what, path in paths.items():
                answer = client.get(path)
                assert answer.status_code == 200, what
                page = read_page(answer.text)
                assert page.scripts_within == [], what
                assert all(each["src"].startswith(("/p/vision/plans/", "/p/vision/assignments/")) for each in page.of("img")), what
                shown += "<script>alert(1)" in page.text
    assert shown > 25  # and is there to be read


def test_parts_that_are_asked_again_are_escaped_too(hostile_running, hostile_world):
    jobs = hostile_world.things["vision"]["jobs"]
    with hostile_running.client(hostile_world.cookies["rosa"]) as client:
        for path in ("/p/vision/jobs/live", f"/p/vision/jobs/{jobs['running']}/live"):
            html = client.get(path).json()["html"]
            assert "&lt;script&gt;" in html
            assert "<script" not in html


def test_what_is_typed_comes_back_as_it_was_typed(hostile_running, hostile_world):
    with hostile_running.client(hostile_world.cookies["ada"]) as client:
        typed = {"name": '"><script>alert(1)</script>', "slug": "not a slug!"}
        refused = client.post("/projects/new", data=typed, headers={"Referer": f"{hostile_running.url}/"})
        assert refused.headers["Location"] == "/"
        page = read_page(client.get("/").text)
        assert page.scripts_within == []
        assert [each["value"] for each in page.of("input") if each.get("name") in typed] == list(typed.values())
