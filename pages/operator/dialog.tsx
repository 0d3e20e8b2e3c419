import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

export interface DialogProps {
  readonly id: string
  readonly title: string
  /** What the button says that submits. */
  readonly action: string
  readonly isDanger?: boolean
  /** Resolves to whether the dialog is done. */
  readonly onSubmit: () => boolean | Promise<boolean>
  /** Called once it has closed, done or not. */
  readonly onClose: () => void
  readonly children: ComponentChildren
}

/** A form that is open from the moment it is drawn. Closing it returns the focus to where it came from. */
export function Dialog({ id, title, action, isDanger, onSubmit, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const isBusy = useRef(false)
  useLayoutEffect(() => dialog.current?.showModal(), [])

  async function submit(event: Event): Promise<void> {
    event.preventDefault()
    if (isBusy.current) return
    isBusy.current = true
    if (await onSubmit()) dialog.current?.close()
    isBusy.current = false
  }

  return (
    <dialog id={id} ref={dialog} aria-labelledby={`${id}-title`} onClose={onClose}>
      <form noValidate onSubmit={submit}>
        <h2 id={`${id}-title`}>{title}</h2>
        {children}
        <div class="buttons">
          <button type="submit" class={isDanger ? 'main danger' : 'main'}>
            {action}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  )
}

/** What is wrong with a form, or with the field that names it as its description. */
export function Wrong({ id, text }: { readonly id: string; readonly text: string | undefined }) {
  return (
    <p class="wrong" id={id} role="alert">
      {text}
    </p>
  )
}
