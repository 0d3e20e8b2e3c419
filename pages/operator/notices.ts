import { byId, element } from './dom.ts'

export interface Notice {
  readonly text: string
  readonly tone?: 'good' | 'bad'
  /** A button beside the text. The notice goes when it is pressed. */
  readonly action?: { readonly label: string; readonly run: () => void }
}

const MAX_NOTICES = 3

/** Shows a notice at the bottom of the page until it is closed, and says it to a screen reader. Returns its action's button. */
export function notify({ text, tone, action }: Notice): HTMLButtonElement | undefined {
  const host = byId('notices')
  const notice = element('div', { class: `notice ${tone ?? ''}` }, element('p', {}, text))
  const close = () => {
    const hadFocus = notice.contains(document.activeElement)
    notice.remove()
    if (hadFocus) byId('main').focus({ preventScroll: true })
  }
  const button = action && element('button', { type: 'button' }, action.label)
  button?.addEventListener('click', () => {
    close()
    action?.run()
  })
  const cross = element('button', { type: 'button', class: 'close', 'aria-label': 'Close' }, '×')
  cross.addEventListener('click', close)
  notice.append(...(button === undefined ? [] : [button]), cross)
  host.append(notice)
  while (host.children.length > MAX_NOTICES) host.firstElementChild?.remove()
  return button
}

/** Says a change of state to a screen reader, once. */
export function announce(text: string): void {
  byId('announcements').textContent = text
}
