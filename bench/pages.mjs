// Paths of many different pages of a list, so that a server builds a page for almost every request.

/** Users between the beginnings of two pages. The service remembers 50 lists, a tenth of these. */
const STEP = 20

/** Pages of 100 users, each behind another user. The service gives out cursors for them; the peer takes ids. */
export async function pagesOf(url, users) {
  const ids = Array.from({ length: users / STEP - 100 / STEP }, (_, index) => (index + 1) * STEP)
  const paths = []
  for (let page = `/users?per_page=${STEP}`; paths.length < ids.length; ) {
    const response = await fetch(`${url}${page}`)
    await response.arrayBuffer()
    page = /<([^>]*)>; rel="next"/.exec(response.headers.get('link'))?.[1]
    if (page === undefined) return ids.map(id => `/users?after=${id}`)
    paths.push(page.replace(`per_page=${STEP}`, 'per_page=100'))
  }
  return paths
}
